package parse

import (
	"strings"
	"testing"
	"time"

	"stoplog/internal/source"
)

// testNow is when the tests' lines arrive.
var testNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano()

// readLine parses one line of a file with a fresh sniffing parser.
func readLine(t testing.TB, o Options, line string) (Event, bool) {
	t.Helper()
	return parseCut(t, o, line, false)
}

func parseCut(t testing.TB, o Options, line string, cut bool) (Event, bool) {
	t.Helper()
	o.Sniff = true
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var ev Event
	ok := p.Parse(&source.Line{Text: []byte(line), Cut: cut}, testNow, &ev)
	return ev, ok
}

// brief returns what an event says in one line: outcome, kind, address, user.
func brief(ev *Event, ok bool) string {
	if !ok {
		return "-"
	}
	words := []string{ev.Outcome.String()}
	if ev.Kind != Plain {
		words = append(words, ev.Kind.String())
	}
	if ev.Addr.IsValid() {
		words = append(words, ev.Addr.String())
	}
	if len(ev.User) > 0 {
		words = append(words, "user="+string(ev.User))
	}
	return strings.Join(words, " ")
}

const sshdHead = "Nov 20 09:23:10 host sshd[4153]: "

func TestSSHD(t *testing.T) {
	for _, c := range []struct{ msg, want string }{
		// auth.c, auth_log
		{"Failed password for root from 192.0.2.7 port 40312 ssh2", "failure 192.0.2.7 user=root"},
		{"Failed password for invalid user admin from 192.0.2.7 port 40312 ssh2", "failure unknown_user 192.0.2.7 user=admin"},
		{"Failed password for illegal user admin from ::ffff:192.0.2.7 port 40312 ssh2", "failure unknown_user 192.0.2.7 user=admin"},
		{"Failed password for invalid user  from 192.0.2.7 port 40312 ssh2", "failure unknown_user 192.0.2.7"},
		{"Failed password for <invalid username> from 192.0.2.7 port 1 ssh2", "failure unknown_user 192.0.2.7 user=<invalid username>"},
		{"Failed password for invalid user john smith from 2001:db8::7 port 40312 ssh2", "failure unknown_user 2001:db8::7 user=john smith"},
		{"Failed keyboard-interactive/pam for root from 192.0.2.7 port 40312 ssh2", "failure 192.0.2.7 user=root"},
		{"Failed none for invalid user a from 192.0.2.7 port 40312 ssh2", "failure unknown_user 192.0.2.7 user=a"},
		{"Failed publickey for root from 192.0.2.7 port 40312 ssh2: RSA SHA256:abc/def+g", "other 192.0.2.7 user=root"},
		{"Failed publickey for invalid user git from 192.0.2.7 port 1 ssh2: ED25519 SHA256:abc", "failure unknown_user 192.0.2.7 user=git"},
		{`Failed hostbased for ann from 192.0.2.7 port 1 ssh2: RSA SHA256:x, client user "ann", client host "h.example"`, "failure 192.0.2.7 user=ann"},
		{"Failed gssapi-with-mic for ann from 192.0.2.7 port 1 ssh2", "failure 192.0.2.7 user=ann"},
		{"Failed password for root from 192.0.2.7", "failure 192.0.2.7 user=root"},
		{"Failed password for root from host.example port 22 ssh2", "failure user=root"},
		{"Accepted password for ann from 192.0.2.8 port 40312 ssh2", "success 192.0.2.8 user=ann"},
		{"Accepted publickey for ann from 192.0.2.8 port 40312 ssh2: RSA SHA256:abc", "success 192.0.2.8 user=ann"},
		{`Accepted publickey for ann from 192.0.2.8 port 1 ssh2: ED25519-CERT SHA256:k ID ann from 203.0.113.9 port 1 ssh2 (serial 4) CA ED25519 SHA256:c`, "success 192.0.2.8 user=ann"},
		{"Postponed keyboard-interactive for ann from 192.0.2.8 port 40312 ssh2 [preauth]", "other 192.0.2.8 user=ann"},
		{"Postponed keyboard-interactive for invalid user x from 192.0.2.8 port 40312 ssh2 [preauth]", "other 192.0.2.8 user=x"},
		{"Partial publickey for ann from 192.0.2.8 port 40312 ssh2: RSA SHA256:abc", "other 192.0.2.8 user=ann"},
		{"Invalid user oracle from 192.0.2.7 port 40312", "failure unknown_user 192.0.2.7 user=oracle"},
		{"Invalid user oracle from 192.0.2.7", "failure unknown_user 192.0.2.7 user=oracle"},
		{"Invalid user  from 192.0.2.7 port 40312", "failure unknown_user 192.0.2.7"},
		{"Illegal user oracle from 2001:db8::7", "failure unknown_user 2001:db8::7 user=oracle"},
		{"User root from 192.0.2.7 not allowed because not listed in AllowUsers", "failure forbidden 192.0.2.7 user=root"},
		{"User root from 192.0.2.7 not allowed because listed in DenyUsers", "failure forbidden 192.0.2.7 user=root"},
		{"User root from 192.0.2.7 not allowed because none of user's groups are listed in AllowGroups", "failure forbidden 192.0.2.7 user=root"},
		{"User root from host.example not allowed because not in any group", "failure forbidden user=root"},
		{"User root not allowed because account is locked", "failure forbidden user=root"},
		{"ROOT LOGIN REFUSED FROM 192.0.2.7 port 40312", "failure 192.0.2.7 user=root"},
		{"ROOT LOGIN REFUSED FROM 192.0.2.7", "failure 192.0.2.7 user=root"},
		{"error: maximum authentication attempts exceeded for root from 192.0.2.7 port 1 ssh2 [preauth]", "failure 192.0.2.7 user=root"},
		{"error: maximum authentication attempts exceeded for invalid user x from 192.0.2.7 port 1 ssh2 [preauth]", "failure unknown_user 192.0.2.7 user=x"},
		{"Disconnecting: Too many authentication failures for root [preauth]", "failure user=root"},
		{"Disconnecting: Too many authentication failures [preauth]", "failure"},
		{"Disconnecting authenticating user root 192.0.2.7 port 1: Too many authentication failures [preauth]", "failure 192.0.2.7 user=root"},
		{"Disconnecting invalid user x 192.0.2.7 port 1: Too many authentication failures [preauth]", "failure unknown_user 192.0.2.7 user=x"},
		{"Disconnecting invalid user x 192.0.2.7 port 1: Change of username or service not allowed: (x,ssh-connection) -> (y,ssh-connection) [preauth]", "failure unknown_user 192.0.2.7 user=x"},
		{"input_userauth_request: invalid user oracle [preauth]", "other user=oracle"},
		{"Access denied for user ann by PAM account configuration [preauth]", "failure user=ann"},
		{"Authentication tried for ann with correct key but not from a permitted host (host=h.example, ip=192.0.2.7, required=198.51.100.0/24).", "failure forbidden 192.0.2.7 user=ann"},
		{"/home/ann/.ssh/authorized_keys:1: Authentication tried for ann with correct key but not from a permitted host (host=192.0.2.7, ip=192.0.2.7, required=*.example).", "failure forbidden 192.0.2.7 user=ann"},
		{"cert: Authentication tried for ann with valid certificate but not from a permitted source address (192.0.2.7).", "-"},
		{"PID 4711: Failed password for root from 192.0.2.7 port 40312 ssh2", "failure 192.0.2.7 user=root"},
		// auth-pam.c
		{"error: PAM: Authentication failure for root from 192.0.2.7", "failure 192.0.2.7 user=root"},
		{"error: PAM: Authentication failure for illegal user x from 192.0.2.7", "failure unknown_user 192.0.2.7 user=x"},
		{"error: PAM: User not known to the underlying authentication module for x from 192.0.2.7", "failure unknown_user 192.0.2.7 user=x"},
		{"error: PAM: authentication error for ann from 192.0.2.7 via 192.0.2.1", "failure 192.0.2.7 user=ann"},
		{"error: PAM: Authentication failure for ann from host.example", "failure user=ann"},
		// packet.c
		{"Connection closed by 192.0.2.7 port 40312 [preauth]", "other probe 192.0.2.7"},
		{"Connection closed by 192.0.2.7 [preauth]", "other probe 192.0.2.7"},
		{"Connection closed by 192.0.2.7 port 40312", "other 192.0.2.7"},
		{"Connection closed by invalid user ubnt 192.0.2.7 port 40312 [preauth]", "failure unknown_user 192.0.2.7 user=ubnt"},
		{"Connection closed by invalid user  192.0.2.7 port 40312 [preauth]", "failure unknown_user 192.0.2.7"},
		{"Connection closed by authenticating user root 192.0.2.7 port 40312 [preauth]", "failure 192.0.2.7 user=root"},
		{"Connection reset by authenticating user root 192.0.2.7 port 40312 [preauth]", "failure 192.0.2.7 user=root"},
		{"Connection reset by 192.0.2.7 port 40312 [preauth]", "other probe 192.0.2.7"},
		{"Disconnected from authenticating user root 192.0.2.7 port 40312 [preauth]", "failure 192.0.2.7 user=root"},
		{"Disconnected from invalid user x 2001:db8::7 port 40312 [preauth]", "failure unknown_user 2001:db8::7 user=x"},
		{"Disconnected from user ann 192.0.2.8 port 40312", "other 192.0.2.8 user=ann"},
		{"Disconnected from 192.0.2.7 port 40312 [preauth]", "other probe 192.0.2.7"},
		{"Disconnected from bad user x 192.0.2.7 port 40312 [preauth]", "-"},
		{"Received disconnect from 192.0.2.7: 11: Bye Bye [preauth]", "other probe 192.0.2.7"},
		{"Received disconnect from 192.0.2.7 port 40312:11: Bye Bye [preauth]", "other 192.0.2.7"},
		{"Received disconnect from 192.0.2.8 port 40312:11: disconnected by user", "other 192.0.2.8"},
		{"error: Received disconnect from 192.0.2.7: 3: com.jcraft.jsch.JSchException: Auth fail [preauth]", "failure 192.0.2.7"},
		{"error: Received disconnect from 192.0.2.7 port 1:14: No supported authentication methods available [preauth]", "failure 192.0.2.7"},
		{"Connection timed out", "-"},
		{"Connection authenticating user root 192.0.2.7 port 1 timed out [preauth]", "failure 192.0.2.7 user=root"},
		{"Timeout, client not responding from user ann 192.0.2.8 port 40312", "-"},
		{"Read error from remote host 192.0.2.7 port 1: Connection reset by peer", "other 192.0.2.7"},
		{"Unable to negotiate with 192.0.2.7 port 1: no matching key exchange method found. Their offer: a,b [preauth]", "other probe 192.0.2.7"},
		{"fatal: Unable to negotiate with 2001:db8::7 port 1: no matching host key type found. Their offer: ssh-dss [preauth]", "other probe 2001:db8::7"},
		{"ssh_dispatch_run_fatal: Connection from 192.0.2.7 port 1: message authentication code incorrect [preauth]", "other probe 192.0.2.7"},
		{"ssh_dispatch_run_fatal: Connection from authenticating user root 192.0.2.7 port 1: Broken pipe [preauth]", "failure 192.0.2.7 user=root"},
		{"ssh_dispatch_run_fatal: Connection from user ann 192.0.2.8 port 1: Broken pipe", "other 192.0.2.8"},
		{"fatal: ssh_packet_get_string: incomplete message [preauth]", "-"},
		// kex.c, sshd.c, sshd-session.c
		{"banner exchange: Connection from 192.0.2.7 port 1: invalid format", "other probe 192.0.2.7"},
		{"banner exchange: Connection from 192.0.2.7 port 1: could not read protocol version", "other probe 192.0.2.7"},
		{"error: kex_exchange_identification: Connection closed by remote host", "other probe"},
		{"Did not receive identification string from 192.0.2.7 port 40312", "other probe 192.0.2.7"},
		{"Did not receive identification string from 192.0.2.7", "other probe 192.0.2.7"},
		{"Did not receive identification string from UNKNOWN", "-"},
		{"Bad protocol version identification 'GET / HTTP/1.0' from 192.0.2.7 port 1", "other probe 192.0.2.7"},
		{"Bad protocol version identification '\\003' from 192.0.2.7", "other probe 192.0.2.7"},
		{"Protocol major versions differ for 192.0.2.7 port 1: SSH-2.0-OpenSSH_9.2 vs. SSH-1.5-x", "other probe 192.0.2.7"},
		{"probed from 192.0.2.7 port 1 with SSH-1.0-SSH_Version_Mapper.  Don't panic.", "other probe 192.0.2.7"},
		{"scanned from 192.0.2.7 port 1 with SSH-1.0-SSH_Version_Mapper.  Don't panic.", "other probe 192.0.2.7"},
		{"Could not write ident string to 192.0.2.7 port 1", "other probe 192.0.2.7"},
		{"fatal: Timeout before authentication for 192.0.2.7 port 1", "other probe 192.0.2.7"},
		{"Timeout before authentication for connection from 192.0.2.7 to 192.0.2.1, pid = 5155", "other probe 192.0.2.7"},
		{"Connection from 192.0.2.7 port 1 on 192.0.2.1 port 22", "other 192.0.2.7"},
		{`Connection from 192.0.2.7 port 1 on 192.0.2.1 port 22 rdomain ""`, "other 192.0.2.7"},
		{"Connection from 192.0.2.7", "other 192.0.2.7"},
		{"Starting session: shell on pts/0 for ann from 192.0.2.8 port 1 id 0", "other 192.0.2.8"},
		{"Close session: user ann from 192.0.2.8 port 1 id 0", "other 192.0.2.8"},
		{"drop connection #10 from [192.0.2.7]:1 on [192.0.2.1]:22 past MaxStartups", "other probe 192.0.2.7"},
		{"drop connection #0 from [192.0.2.7]:1 on [192.0.2.1]:22 penalty: failed authentication", "failure limited 192.0.2.7"},
		{"drop connection #0 from [2001:db8::7]:1 on [2001:db8::1]:22 penalty: failed authentication", "failure limited 2001:db8::7"},
		{"fatal: Read from socket failed: Connection reset by peer [preauth]", "other probe"},
		// canohost.c, libwrap
		{"reverse mapping checking getaddrinfo for h.example [192.0.2.7] failed - POSSIBLE BREAK-IN ATTEMPT!", "other 192.0.2.7"},
		{"reverse mapping checking getaddrinfo for h.example [192.0.2.7] failed.", "other 192.0.2.7"},
		{"Address 192.0.2.7 maps to h.example, but this does not map back to the address - POSSIBLE BREAK-IN ATTEMPT!", "other 192.0.2.7"},
		{`Nasty PTR record "192.0.2.9" is set up for 192.0.2.7, ignoring`, "other 192.0.2.7"},
		{"refused connect from h.example (192.0.2.7)", "failure probe 192.0.2.7"},
		{"refused connect from x@::ffff:192.0.2.9 (::ffff:192.0.2.7)", "failure probe 192.0.2.7"},
		{"refused connect from 192.0.2.7", "failure probe 192.0.2.7"},
		// neither here nor there
		{"Server listening on 0.0.0.0 port 22.", "-"},
		{"Received signal 15; terminating.", "-"},
		{"subsystem request for sftp by user ann", "-"},
		{"User child is on pid 77", "-"},
		{"Failed password for", "-"},
		{"Invalid user", "-"},
	} {
		ev, ok := readLine(t, Options{}, sshdHead+c.msg)
		if got := brief(&ev, ok); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.msg, got, c.want)
		}
		if ok && (ev.Service != "sshd" || ev.Time != time.Date(2026, 11, 20, 9, 23, 10, 0, time.UTC).UnixNano()) {
			t.Errorf("%s: service %q, time %d", c.msg, ev.Service, ev.Time)
		}
		if ok && ev.Verified {
			t.Errorf("%s: a syslog line passes as verified", c.msg)
		}
	}
}

// victims are lines of other formats and other daemons that an attacker would
// like to be read instead of the true one; none may ever be blamed.
var victims = []string{
	"x from 203.0.113.66 port 22 ssh2",
	"x from 203.0.113.66 port 22",
	"x from 203.0.113.66",
	"from 203.0.113.66",
	" from 203.0.113.66 port 22 ssh2: RSA SHA256:abc",
	"x 203.0.113.66 port 22: Too many authentication failures",
	"x 203.0.113.66 port 22",
	"root 203.0.113.66 port 22 [preauth]",
	"x port 22: ",
	"' from 203.0.113.66 port 22",
	"x from 203.0.113.66 not allowed because listed in DenyUsers",
	"x not allowed because account is locked",
	"x via 203.0.113.66",
	"x [203.0.113.66] failed",
	"x (203.0.113.66)",
	" rhost=203.0.113.66  user=x",
	"x rhost=203.0.113.66",
	"x  rhost=203.0.113.66  user=root",
	"[client 203.0.113.66] user x not found",
	`x", client: 203.0.113.66, server: h, request: "GET`,
	"203.0.113.66 - - [20/Nov/2026:09:23:10 +0000] \"GET / HTTP/1.1\" 401 0",
	"sshd[1]: Failed password for root from 203.0.113.66 port 22 ssh2",
	"Nov 20 09:23:10 host sshd[1]: Failed password for root from 203.0.113.66 port 22 ssh2",
	"x#012Nov 20 09:23:10 host sshd[1]: Invalid user x from 203.0.113.66 port 1",
	`x\nNov 20 09:23:10 host sshd[1]: Invalid user x from 203.0.113.66 port 1`,
	`{"log":"Invalid user x from 203.0.113.66"}`,
	"message repeated 5 times: [ Failed password for root from 203.0.113.66 port 22 ssh2]",
	"x: user=<root>, rip=203.0.113.66, lip=192.0.2.1",
	"', reason: 203.0.113.66:22",
	"x' from 203.0.113.66:22",
	"', 3 fails): x from <203.0.113.66:22>",
	":: Viewer Address: 203.0.113.66 :: Type: DH",
	" for x from 203.0.113.66 port 1 ssh2",
	"FOR x FROM 203.0.113.66 FOR y, z",
	"addr=203.0.113.66 res=failed",
	`"`, `'`, "]", ")", "[", "(", "\\", "%s", "",
}

// sshdHostile are the messages with a field that an outsider fills (@).
var sshdHostile = []string{
	"Failed password for invalid user @ from 192.0.2.7 port 40312 ssh2",
	"Failed publickey for invalid user @ from 192.0.2.7 port 40312 ssh2: RSA SHA256:abc",
	"Failed none for invalid user @ from 192.0.2.7 port 40312 ssh2",
	`Failed hostbased for ann from 192.0.2.7 port 1 ssh2: RSA SHA256:x, client user "@", client host "@"`,
	"Invalid user @ from 192.0.2.7 port 40312",
	"Invalid user @ from 192.0.2.7",
	"input_userauth_request: invalid user @ [preauth]",
	"error: maximum authentication attempts exceeded for invalid user @ from 192.0.2.7 port 1 ssh2 [preauth]",
	"Disconnecting: Too many authentication failures for invalid user @ [preauth]",
	"Disconnecting invalid user @ 192.0.2.7 port 1: Too many authentication failures [preauth]",
	"Disconnecting invalid user x 192.0.2.7 port 1: Change of username or service not allowed: (x,@) -> (@,ssh-connection) [preauth]",
	"error: PAM: Authentication failure for illegal user @ from 192.0.2.7",
	"error: PAM: Authentication failure for illegal user @ from 192.0.2.7 via 192.0.2.1",
	"Connection closed by invalid user @ 192.0.2.7 port 40312 [preauth]",
	"Connection reset by invalid user @ 192.0.2.7 port 40312 [preauth]",
	"Disconnected from invalid user @ 192.0.2.7 port 40312 [preauth]",
	"Received disconnect from 192.0.2.7 port 40312:11: @ [preauth]",
	"Received disconnect from 192.0.2.7: 11: @ [preauth]",
	"Bad protocol version identification '@' from 192.0.2.7 port 1",
	"Bad protocol version identification '@' from 192.0.2.7",
	"Bad remote protocol version identification: '@'",
	"error: kex_exchange_identification: client sent invalid protocol identifier \"@\"",
	"Protocol major versions differ for 192.0.2.7 port 1: SSH-2.0-OpenSSH_9.2 vs. @",
	"probed from 192.0.2.7 port 1 with @.  Don't panic.",
	"Unable to negotiate with 192.0.2.7 port 1: no matching key exchange method found. Their offer: @ [preauth]",
	"fatal: no matching cipher found: client @ server aes128-ctr [preauth]",
	"ssh_dispatch_run_fatal: Connection from invalid user @ 192.0.2.7 port 1: Broken pipe [preauth]",
	"Postponed keyboard-interactive for invalid user @ from 192.0.2.7 port 40312 ssh2 [preauth]",
	"message repeated 2 times: [ Failed password for invalid user @ from 192.0.2.7 port 40312 ssh2]",
}

// mayBlame are the addresses that stand in the messages by the daemon's own
// word.
func mayBlame(a string) bool { return a == "invalid IP" || a == "192.0.2.7" || a == "2001:db8::7" }

func TestSSHDHostile(t *testing.T) {
	for _, msg := range sshdHostile {
		for _, v := range victims {
			hostile(t, sshdHead+msg, v)
		}
	}
}

// hostile fails when text in line's field (@) changes whom it blames.
func hostile(t *testing.T, line, text string) {
	t.Helper()
	full := strings.ReplaceAll(line, "@", text)
	ev, ok := readLine(t, Options{}, full)
	if ok && !mayBlame(ev.Addr.String()) {
		t.Errorf("%s\nblames %v", full, ev.Addr)
	}
	if ok && ev.Outcome == Success {
		t.Errorf("%s\nis a success", full)
	}
}

// FuzzSSHDUser puts any text into the outsider's field of any message.
func FuzzSSHDUser(f *testing.F) {
	for i, v := range victims {
		f.Add(uint8(i), v)
	}
	f.Fuzz(func(t *testing.T, i uint8, text string) {
		if strings.ContainsAny(text, "\n@") || strings.Contains(text, "192.0.2.7") || len(text) > 400 {
			return
		}
		hostile(t, sshdHead+sshdHostile[int(i)%len(sshdHostile)], text)
	})
}

// TestSSHDSpoofEvent is what CVE-2007-4323 and its like were about: text that
// looks like the end of another message.
func TestSSHDTwoReadings(t *testing.T) {
	ev, ok := readLine(t, Options{}, sshdHead+"Failed password for invalid user x from 203.0.113.66 port 1 ssh2: y from 192.0.2.7 port 2 ssh2")
	if !ok || ev.Addr.IsValid() || ev.Conn == 0 {
		t.Errorf("two readings give %v, %v, conn %d, want none and a connection", ev.Addr, ok, ev.Conn)
	}
}
