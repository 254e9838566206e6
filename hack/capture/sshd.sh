#!/bin/bash
# Captures what OpenSSH, PAM and rsyslog log when logins fail, for
# internal/parse/testdata.
#
#   sudo hack/capture/sshd.sh OUTFILE
#
# Debian 12 with openssh-server, openssh-client, sshpass, netcat and rsyslog,
# as root. All runs in an overlay over / and in namespaces of its own, whose
# loopback carries the documentation addresses: nothing on the machine is
# changed. Clients speak from 198.51.100.7 and 2001:db8::7 to 192.0.2.10.
# Each part begins with a line "## NAME: ATTEMPTS", which says how many
# attempts a client made in it.
set -eu

if [ -z "${CAPTURE_INSIDE:-}" ]; then
	out=$(realpath -m "${1:?where to}")
	d=$(mktemp -d /var/tmp/stoplog-capture-sshd.XXXX)
	trap 'rm -rf "$d"' EXIT
	here=$(realpath "$0")
	: >"$out"
	unshare -mnpf --kill-child --mount-proc bash -ec "
		mount --make-rprivate /
		mount -t tmpfs tmpfs $d; mkdir $d/up $d/work $d/root
		mount -t overlay overlay -o lowerdir=/,upperdir=$d/up,workdir=$d/work $d/root
		mount -t proc proc $d/root/proc
		mount -t tmpfs tmpfs $d/root/dev; mkdir $d/root/dev/pts
		for n in 'null 1 3' 'zero 1 5' 'random 1 8' 'urandom 1 9' 'tty 5 0'; do
			set -- \$n; mknod -m 666 $d/root/dev/\$1 c \$2 \$3
		done
		mount -t devpts devpts -o newinstance,ptmxmode=666 $d/root/dev/pts; ln -s pts/ptmx $d/root/dev/ptmx
		ln -s /proc/self/fd $d/root/dev/fd
		mount -t tmpfs tmpfs $d/root/run; mkdir -p $d/root/run/sshd
		touch $d/root/out; mount --bind $out $d/root/out
		cp $here $d/root/capture.sh
		ip link set lo up
		for a in 192.0.2.10/32 198.51.100.7/32; do ip addr add \$a dev lo; done
		for a in 2001:db8::10/128 2001:db8::7/128; do ip addr add \$a dev lo nodad; done
		CAPTURE_INSIDE=1 chroot $d/root bash /capture.sh"
	exit
fi

log=/var/log/capture.log
cat >/run/rsyslog.conf <<EOF
module(load="imuxsock")
template(name="t" type="list") {
	property(name="timestamp" dateFormat="rfc3164") constant(value=" host ")
	property(name="syslogtag") property(name="msg" spifno1stsp="on") property(name="msg" droplastlf="on") constant(value="\n") }
*.* action(type="omfile" file="$log" template="t")
EOF
rsyslogd -n -f /run/rsyslog.conf -i /run/rsyslog.pid &
until [ -S /dev/log ]; do sleep 0.05; done

useradd -m ann; echo ann:right | chpasswd; useradd -m -s /bin/nologin lost
ssh-keygen -qt ed25519 -N '' -f /run/key; ssh-keygen -qt ed25519 -N '' -f /run/other
mkdir /home/ann/.ssh; cp /run/key.pub /home/ann/.ssh/authorized_keys; chown -R ann: /home/ann/.ssh
[ -e /etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -A

server() { # server OPTIONS…: one sshd for one part
	stop
	printf '%s\n' 'Port 22' 'UsePAM yes' 'PidFile /run/sshd.pid' "$@" >/run/sshd_config
	/usr/sbin/sshd -f /run/sshd_config
	until [ -s /run/sshd.pid ]; do sleep 0.05; done
}
stop() {
	[ -s /run/sshd.pid ] || return 0
	kill "$(cat /run/sshd.pid)"
	while [ -s /run/sshd.pid ]; do sleep 0.05; done
}
part() { # part "NAME: ATTEMPTS" COMMAND…: what is logged while it runs
	echo "## $1" >>/out
	: >"$log"
	shift
	"$@" </dev/null >/dev/null 2>&1 || true
	# A marker through the same socket comes after all that was logged before.
	while pgrep -f 'sshd: .*(\[priv\]|\[net\]|\[accepted\]|@)' >/dev/null; do sleep 0.05; done
	logger end-of-part
	until grep -q end-of-part "$log"; do sleep 0.05; done
	grep -v end-of-part "$log" >>/out || true
}
from=198.51.100.7 to=192.0.2.10
try() { # try PASSWORD USER OPTIONS…
	local pw=$1 user=$2; shift 2
	sshpass -p "$pw" ssh -F none -b $from -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
		-o PubkeyAuthentication=no -o NumberOfPasswordPrompts=1 "$@" -l "$user" $to true
}
thrice() { # the same wrong password until the server or ssh gives up
	SSH_ASKPASS=/run/ask SSH_ASKPASS_REQUIRE=force ssh -F none -b $from -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
		-o PubkeyAuthentication=no -o NumberOfPasswordPrompts="$1" -l "$2" $to true
}
printf '#!/bin/sh\necho wrong\n' >/run/ask; chmod +x /run/ask
key() { ssh -F none -b $from -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes -i "$1" -l "$2" $to true; }

server
part 'one wrong password: 1' try wrong root
part 'wrong password of a user: 1' try wrong ann
part 'three wrong passwords of either method: 6' thrice 3 ann
part 'six wrong passwords: 6' thrice 8 ann
part 'unknown user: 1' try wrong oracle
part 'unknown user, three of either method: 6' thrice 3 oracle
part 'hostile user: 1' try wrong 'x from 203.0.113.66 port 22 ssh2'
part 'hostile user with info: 1' try wrong 'x from 203.0.113.66 port 22 ssh2: RSA x'
part 'hostile user with host: 1' try wrong 'root rhost=203.0.113.66  user=root'
part 'right password: 0' try right ann
part 'a key that does not fit, then none: 1' key /run/other ann
part 'a key that fits: 0' key /run/key ann
from=2001:db8::7 to=2001:db8::10
part 'one wrong password over IPv6: 1' try wrong root
from=198.51.100.7 to=192.0.2.10
part 'closed at once: 0' nc -z -s $from $to 22
part 'speaks HTTP: 0' bash -c "printf 'GET / HTTP/1.0\r\n\r\n' | nc -q1 -s $from $to 22"
part 'no key exchange in common: 0' try wrong root -o KexAlgorithms=diffie-hellman-group1-sha1
server 'PasswordAuthentication no' 'KbdInteractiveAuthentication no'
part 'keys only, root: 1' try wrong root
part 'keys only, unknown user: 1' try wrong oracle
part 'keys only, other key: 1' key /run/other root
server 'KbdInteractiveAuthentication yes' 'PasswordAuthentication no'
part 'keyboard-interactive: 1' try wrong ann
part 'keyboard-interactive thrice: 3' thrice 3 ann
part 'keyboard-interactive, unknown user: 1' try wrong oracle
server 'AllowUsers ann'
part 'not allowed: 1' try wrong root
server 'LogLevel VERBOSE'
part 'verbose, wrong password: 1' try wrong ann
part 'verbose, other key: 1' key /run/other ann
part 'verbose, right password: 0' try right ann
stop
