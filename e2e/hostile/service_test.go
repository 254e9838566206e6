package hostile

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// owned gives a folder to the account under which the server runs.
func owned(t *testing.T, account, path string) string {
	t.Helper()
	must(t, "chown", account+":", dir(t, path))
	return path
}

func TestMosquitto(t *testing.T) {
	need(t, "mosquitto", "mosquitto_passwd")
	d, log := scratch(t), owned(t, "mosquitto", "/var/log/mosquitto")
	pw := put(t, d+"/passwd", "bob:right\n")
	must(t, "mosquitto_passwd", "-U", pw)
	must(t, "chown", "mosquitto:", pw)
	conf := put(t, d+"/mosquitto.conf", "listener 1883 "+serverAddr+"\nallow_anonymous false\npassword_file "+pw+"\nlog_dest file "+log+"/mosquitto.log\nlog_type all\n")
	start(t, "mosquitto", "-c", conf).listening(t, "1883")
	// CONNECT of MQTT 3.1.1, section 3.1.
	connect := func(id, user, password string) string {
		body := "\x00\x04MQTT\x04\xc2\x00\x3c"
		for _, s := range []string{id, user, password} {
			s = s[:min(len(s), 4000)]
			body += string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s
		}
		head, n := []byte{0x10}, len(body)
		for ; n > 127; n >>= 7 {
			head = append(head, byte(n)|0x80)
		}
		return string(append(head, byte(n))) + body
	}
	// Version 2.0 writes no address where it refuses a client.
	a := attack{logs: []string{log + "/*.log"}, blind: true, n: 100, own: 100, workers: 16, try: func(p string) error {
		if err := say("1883", false, connect(p, "x", "x")); err != nil {
			return err
		}
		return say("1883", false, connect("x", p, p))
	}}
	a.run(t)
}

func TestMonit(t *testing.T) {
	need(t, "monit")
	d := scratch(t)
	conf := put(t, d+"/monitrc", fmt.Sprintf("set daemon 3600\nset log /var/log/monit.log\nset idfile %[1]s/id\nset statefile %[1]s/state\nset pidfile %[1]s/pid\nset httpd port 2812 and use address %[2]s\n  allow admin:right\n", d, serverAddr))
	if err := os.Chmod(conf, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "monit", "-I", "-c", conf).listening(t, "2812")
	a := attack{logs: []string{"/var/log/monit.log"}, try: func(p string) error {
		line := strings.NewReplacer("\n", " ", "\r", " ").Replace(p)
		for _, cred := range []string{p + ":x", "x:" + p, "admin:" + p} {
			auth := base64.StdEncoding.EncodeToString([]byte(cred[:min(len(cred), 3000)]))
			if err := say("2812", false, "GET /"+line+" HTTP/1.0\r\nHost: "+line+"\r\nAuthorization: Basic "+auth+"\r\n\r\n"); err != nil {
				return err
			}
		}
		return nil
	}}
	a.run(t)
}

func TestDante(t *testing.T) {
	need(t, "danted")
	d := scratch(t)
	conf := put(t, d+"/danted.conf", fmt.Sprintf("logoutput: /var/log/danted.log\ninternal: %[1]s port = 1080\nexternal: %[1]s\nclientmethod: none\nsocksmethod: username\nuser.privileged: root\nuser.unprivileged: nobody\nclient pass { from: 0.0.0.0/0 to: 0.0.0.0/0 log: error connect disconnect }\nsocks pass { from: 0.0.0.0/0 to: 0.0.0.0/0 log: error connect disconnect }\n", serverAddr))
	start(t, "danted", "-f", conf, "-p", d+"/pid").listening(t, "1080")
	field := func(s string) string { s = s[:min(len(s), 255)]; return string([]byte{byte(len(s))}) + s }
	a := attack{logs: []string{"/var/log/danted.log"}, n: 100, own: 100, workers: 4, try: func(p string) error {
		return say("1080", false, "\x05\x01\x02", "\x01"+field(p)+field(p)) // RFC 1929
	}}
	a.run(t)
}

func TestSamba(t *testing.T) {
	need(t, "smbd", "smbclient", "ip")
	d, log := scratch(t), dir(t, "/var/log/samba")
	for _, sub := range []string{"private", "lock", "state", "cache", "pid", "ncalrpc"} {
		dir(t, d+"/"+sub)
	}
	conf := put(t, d+"/smb.conf", fmt.Sprintf(`[global]
interfaces = %[2]s
bind interfaces only = yes
server role = standalone server
disable netbios = yes
smb ports = 445
map to guest = never
private dir = %[1]s/private
lock directory = %[1]s/lock
state directory = %[1]s/state
cache directory = %[1]s/cache
pid directory = %[1]s/pid
ncalrpc dir = %[1]s/ncalrpc
log file = %[3]s/log.smbd
log level = 1 auth_audit:3 auth_json_audit:3
debug syslog format = yes
`, d, serverAddr, log))
	// smbclient cannot be told which address is its own.
	route := func(src string) {
		must(t, "ip", "route", "replace", "local", serverAddr, "dev", "lo", "table", "local", "src", src)
	}
	route(clientAddr)
	t.Cleanup(func() { route(serverAddr) })
	start(t, "smbd", "-F", "--no-process-group", "-s", conf).listening(t, "445")
	a := attack{logs: []string{log + "/log.smbd"}, n: 20, own: 20, workers: 4, try: func(p string) error {
		p = strings.ReplaceAll(p[:min(len(p), 500)], "\x00", "")
		for _, args := range [][]string{{"-U", p + "%x"}, {"-U", "x%x", "-W", p}, {"-U", "x%x", "-n", p}} {
			c := exec.Command("smbclient", append([]string{"-s", conf, "-L", serverAddr, "-t", "10"}, args...)...)
			c.Env = []string{"HOME=" + d}
			_ = c.Run() // it is refused
		}
		return nil
	}, plain: func(name string) error {
		_ = exec.Command("smbclient", "-s", conf, "-L", serverAddr, "-U", name+"%x", "-t", "10").Run()
		return nil
	}}
	a.run(t)
}
