package hostile

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestMariaDB(t *testing.T) {
	need(t, "mariadbd", "mariadb-install-db")
	d := scratch(t)
	log := filepath.Join(dir(t, "/var/log/mysql"), "error.log")
	must(t, "mariadb-install-db", "--no-defaults", "--user=root", "--datadir="+d+"/data", "--skip-test-db", "--auth-root-authentication-method=normal")
	s := start(t, "mariadbd", "--no-defaults", "--user=root", "--datadir="+d+"/data", "--socket="+d+"/s", "--pid-file="+d+"/pid",
		"--bind-address="+serverAddr, "--port=3306", "--log-error="+log, "--skip-name-resolve", "--max-connect-errors=1000000000", "--init-file="+put(t, d+"/init.sql", "CREATE USER 'alice'@'%' IDENTIFIED BY 'right';\n"))
	s.listening(t, "3306")
	a := attack{
		logs: []string{log},
		try:  func(p string) error { return mysqlLogin(p, "", p) },
		n:    600, apart: 5,
	}
	a.run(t)
}

// mysqlLogin sends a HandshakeResponse41 with names of the client's choice and
// a wrong password.
func mysqlLogin(user, database, plugin string) error {
	c, err := dial("3306")
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	if _, err := mysqlPacket(r); err != nil {
		return nil
	}
	const protocol41, secure, pluginAuth, connectDB = 0x200, 0x8000, 0x80000, 8
	flags := uint32(protocol41 | secure | pluginAuth | 1)
	if database != "" {
		flags |= connectDB
	}
	b := binary.LittleEndian.AppendUint32(nil, flags)
	b = binary.LittleEndian.AppendUint32(b, 1<<24)
	b = append(b, 45)
	b = append(b, make([]byte, 23)...)
	b = append(append(b, user...), 0)
	b = append(append(b, 20), "12345678901234567890"...)
	if database != "" {
		b = append(append(b, database...), 0)
	}
	b = append(append(b, "mysql_native_password"...), 0)
	head := []byte{byte(len(b)), byte(len(b) >> 8), byte(len(b) >> 16), 1}
	if _, err := c.Write(append(head, b...)); err != nil {
		return nil
	}
	for { // a server may ask for another method first
		p, err := mysqlPacket(r)
		if err != nil || len(p) == 0 || p[0] != 0xfe {
			return nil
		}
		if _, err := c.Write([]byte("\x14\x00\x00\x0312345678901234567890")); err != nil {
			return nil
		}
	}
}

func mysqlPacket(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	_, err := io.ReadFull(r, b)
	return b, err
}

func TestPostgreSQL(t *testing.T) {
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(bins) == 0 {
		need(t, "postgres")
	}
	need(t)
	bin := bins[len(bins)-1]
	for name, prefix := range map[string]string{
		"debian":  "%m [%p] %q%u@%d ",
		"address": "%m [%p] %h %u@%d ",
		"app":     "%t:%r:%u@%d:[%p]: %a ",
	} {
		t.Run(name, func(t *testing.T) {
			d := scratch(t)
			as := func(argv ...string) []string {
				return append([]string{"setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"}, argv...)
			}
			must(t, as(bin+"/initdb", "-D", d+"/data", "-A", "password", "--no-sync", "-U", "postgres", "--pwfile", put(t, d+"/pw", "secret\n"))...)
			put(t, d+"/data/pg_hba.conf", "host all all 0.0.0.0/0 password\n")
			log := filepath.Join(dir(t, "/var/log/postgresql"), "postgresql-"+name+"-main.log")
			f, err := os.Create(log)
			if err != nil {
				t.Fatal(err)
			}
			s := startInto(t, f, as(bin+"/postgres", "-D", d+"/data", "-h", serverAddr, "-k", d, "-F",
				"-c", "log_line_prefix="+prefix, "-c", "log_connections=on", "-c", "log_disconnections=on", "-c", "log_timezone=UTC")...)
			s.listening(t, "5432")
			a := attack{logs: []string{log}, n: 100, own: 100, apart: 2, try: func(p string) error {
				if err := postgresLogin(p, p, p); err != nil {
					return err
				}
				return postgresLogin("alice", p, p)
			}, more: []string{ // a first line that looks complete, and a second one
				"b FATAL:  x\n" + time.Now().UTC().Format(time.DateTime) + " UTC [1] " + victimAddr + " u@d",
				"b LOG:  x\n" + time.Now().UTC().Format(time.DateTime) + " UTC [1] " + victimAddr + " u@d",
				"b DETAIL:  x\n" + time.Now().UTC().Format(time.DateTime) + " UTC [1] " + victimAddr + " u@d",
			}}
			a.run(t)
			s.stop()
		})
	}
}

// postgresLogin sends a startup message and a wrong password.
func postgresLogin(user, database, application string) error {
	c, err := dial("5432")
	if err != nil {
		return err
	}
	defer c.Close()
	b := binary.BigEndian.AppendUint32(make([]byte, 4), 3<<16)
	for _, s := range []string{"user", user, "database", database, "application_name", application} {
		b = append(append(b, s...), 0)
	}
	b = append(b, 0)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	if _, err := c.Write(b); err != nil {
		return nil
	}
	buf := make([]byte, 4096)
	if n, err := c.Read(buf); err != nil || n == 0 || buf[0] != 'R' {
		return nil
	}
	if _, err := c.Write([]byte("p\x00\x00\x00\x0awrong\x00")); err != nil {
		return nil
	}
	_, _ = io.Copy(io.Discard, c)
	return nil
}

func TestRedis(t *testing.T) {
	need(t, "redis-server")
	d, log := scratch(t), dir(t, "/var/log/redis")
	conf := put(t, d+"/redis.conf", "port 6379\nbind "+serverAddr+"\ndir "+d+"\nlogfile "+log+"/redis-server.log\nloglevel verbose\nrequirepass right\n")
	start(t, "redis-server", conf).listening(t, "6379")
	a := attack{logs: []string{log + "/*.log"}, blind: true, try: func(p string) error {
		bulk := func(words ...string) string {
			s := fmt.Sprintf("*%d\r\n", len(words))
			for _, w := range words {
				s += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
			}
			return s
		}
		return say("6379", false, bulk("AUTH", p, p), bulk("CLIENT", "SETNAME", p), bulk(p, p), "POST / HTTP/1.1\r\nHost: "+p+"\r\n\r\n")
	}}
	a.run(t)
}

func TestSlapd(t *testing.T) {
	need(t, "slapd", "rsyslogd", "logger")
	syslog(t)
	d := scratch(t)
	conf := put(t, d+"/slapd.conf", fmt.Sprintf(`include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile %[1]s/pid
loglevel stats
database mdb
suffix "dc=h"
rootdn "cn=admin,dc=h"
rootpw right
directory %[2]s
`, d, dir(t, d+"/db")))
	start(t, "slapd", "-d", "0", "-f", conf, "-h", "ldap://"+serverAddr+":389").listening(t, "389")
	a := attack{logs: []string{"/var/log/syslog"}, n: 80, own: 80, workers: 4, synced: flushed(t, "local4.info", "/var/log/syslog"), try: func(p string) error {
		for _, dn := range []string{p, "cn=" + p + ",dc=h", `cn="` + p + `",dc=h`} {
			if err := say("389", false, ldapBind(dn, p)); err != nil {
				return err
			}
		}
		return nil
	}}
	a.run(t)
}

// ldapBind is a BindRequest with a name and a simple password (RFC 4511, 4.2).
func ldapBind(dn, password string) string {
	tlv := func(tag byte, s string) string {
		return string([]byte{tag, 0x83, byte(len(s) >> 16), byte(len(s) >> 8), byte(len(s))}) + s
	}
	return tlv(0x30, "\x02\x01\x01"+tlv(0x60, "\x02\x01\x03"+tlv(0x04, dn)+tlv(0x80, password)))
}
