// Package enginetest runs a real Valkey or Redis server with TLS and a password,
// for tests.
package enginetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
)

// Password is that of the user default.
const Password = "adminpw"

// patience is how long a server may take to start.
const patience = 30 * time.Second

// Engine is a server on a port of 127.0.0.1.
type Engine struct {
	// CA is the certificate that verifies the server, in PEM, and CAFile its file.
	CA, CAFile string

	t       *testing.T
	bin     string
	port    int
	replica int
	pool    *x509.CertPool
	args    []string
	cmd     *exec.Cmd
}

// Start starts a server that ends with the test. Without one on this machine the
// test is skipped, or fails if kernel tests are required.
func Start(t *testing.T) *Engine {
	t.Helper()
	e := &Engine{t: t, port: FreePort(t)}
	for _, name := range []string{"valkey-server", "redis-server"} {
		if p, err := exec.LookPath(name); err == nil {
			e.bin = p
			break
		}
	}
	if e.bin == "" {
		if os.Getenv("STOPLOG_REQUIRE_KERNEL_TESTS") == "1" {
			t.Fatal("needs valkey-server or redis-server")
		}
		t.Skip("needs valkey-server or redis-server")
	}
	dir := t.TempDir()
	cert, key := e.certify(dir)
	e.CAFile = cert
	e.args = []string{"--bind", "127.0.0.1", "--port", "0", "--tls-port", strconv.Itoa(e.port), "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", cert, "--tls-auth-clients", "no", "--requirepass", Password, "--dir", dir, "--save", "", "--appendonly", "no"}
	e.Restart()
	t.Cleanup(e.Kill)
	return e
}

// FreePort returns a TCP port that nobody listens on.
func FreePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// certify makes a certificate that is its own CA.
func (e *Engine) certify(dir string) (certFile, keyFile string) {
	e.t.Helper()
	check := func(err error) {
		if err != nil {
			e.t.Helper()
			e.t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "engine"}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	check(err)
	e.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	e.pool = x509.NewCertPool()
	e.pool.AppendCertsFromPEM([]byte(e.CA))
	k, err := x509.MarshalECPrivateKey(key)
	check(err)
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	check(os.WriteFile(certFile, []byte(e.CA), 0o644))
	check(os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: k}), 0o600))
	return certFile, keyFile
}

// Restart starts the server, after Kill, without the data that it had.
func (e *Engine) Restart() {
	e.t.Helper()
	e.cmd = exec.Command(e.bin, e.args...)
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.await(e.port, e.bin, "PING")
}

// Kill ends the server as a crash does.
func (e *Engine) Kill() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
}

// Failover starts a replica and a Sentinel, and returns the URL by which clients
// find the primary, with a user. Kill then makes the replica the primary; Do keeps
// to the first server, DoReplica to the second.
func (e *Engine) Failover() (url func(user, password string) string) {
	e.t.Helper()
	dir := e.t.TempDir()
	e.replica = FreePort(e.t)
	args := append(slices.Clone(e.args), "--replicaof", "127.0.0.1 "+strconv.Itoa(e.port), "--masterauth", Password, "--tls-replication", "yes")
	args[slices.Index(args, "--tls-port")+1] = strconv.Itoa(e.replica)
	args[slices.Index(args, "--dir")+1] = dir
	e.run(args...)
	e.await(e.replica, "the replica", "PING")
	sentinel := FreePort(e.t)
	conf := filepath.Join(dir, "sentinel.conf")
	tlsArgs := e.args[slices.Index(e.args, "--tls-cert-file"):slices.Index(e.args, "--requirepass")]
	text := fmt.Sprintf("port 0\nbind 127.0.0.1\ntls-port %d\ntls-replication yes\ndir %s\nsentinel monitor main 127.0.0.1 %d 1\nsentinel auth-pass main %s\n"+
		"sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n", sentinel, dir, e.port, Password)
	for i := 0; i < len(tlsArgs); i += 2 {
		text += strings.TrimPrefix(tlsArgs[i], "--") + " " + tlsArgs[i+1] + "\n"
	}
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
	e.run(conf, "--sentinel")
	for end := time.Now().Add(patience); ; {
		out, err := e.ask(sentinel, "", "SENTINEL", "REPLICAS", "main")
		if err == nil && strings.Contains(out, "master-link-status:ok") {
			break
		}
		if time.Now().After(end) {
			e.t.Fatalf("Sentinel does not know the replica: %v: %s", err, out)
		}
	}
	return func(user, password string) string {
		return fmt.Sprintf("rediss://%s:%s@127.0.0.1:%d/?sentinel=main", user, password, sentinel)
	}
}

// run starts a process that ends with the test.
func (e *Engine) run(args ...string) {
	e.t.Helper()
	c := exec.Command(e.bin, args...)
	if err := c.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
}

// DoReplica runs a command on the second server.
func (e *Engine) DoReplica(args ...string) {
	e.t.Helper()
	if _, err := e.ask(e.replica, Password, args...); err != nil {
		e.t.Fatalf("%v: %v", args, err)
	}
}

// URL is the server's, with a user; the administrator is default.
func (e *Engine) URL(user, password string) string {
	return fmt.Sprintf("rediss://%s:%s@127.0.0.1:%d", user, password, e.port)
}

// Do runs a command as the administrator.
func (e *Engine) Do(args ...string) {
	e.t.Helper()
	if _, err := e.ask(e.port, Password, args...); err != nil {
		e.t.Fatalf("%v: %v", args, err)
	}
}

// await waits until the server on a port carries out a command.
func (e *Engine) await(port int, what string, args ...string) {
	e.t.Helper()
	for end := time.Now().Add(patience); ; {
		_, err := e.ask(port, Password, args...)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			e.t.Fatalf("%s does not answer: %v", what, err)
		}
	}
}

// ask runs a command on the server on a port, and returns the answer as text.
func (e *Engine) ask(port int, password string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{fmt.Sprintf("127.0.0.1:%d", port)}, Password: password,
		TLSConfig: &tls.Config{RootCAs: e.pool}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return "", err
	}
	defer c.Close()
	v, err := c.Do(ctx, c.B().Arbitrary(args...).Build()).ToAny()
	return fmt.Sprint(v), err
}
