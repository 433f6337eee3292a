package stack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/internal/testcluster"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/permissions"
	"github.com/agentbus/agentbus/pkg/config/env"
)

// startNATS starts NATS as in production: TLS with verified clients, and a user with the permissions of each service. With
// OpenNATS it has neither.
func (s *Stack) startNATS(ctx context.Context) error {
	more := ""
	if !s.options.OpenNATS {
		var err error
		if more, err = s.secureNATS(); err != nil {
			return err
		}
	}
	servers, err := s.layout.NATS(ctx, testcluster.NATSOptions{Nodes: 1, More: more})
	if err != nil {
		return err
	}
	s.NATS, s.NATSMonitor = testcluster.NATSURL(servers), servers[0].Admin
	if _, err = s.group.Start(ctx, servers[0]); err != nil {
		return err
	}
	return s.Provision(ctx)
}

// secureNATS writes the users and the certificate, and returns the configuration of the server.
func (s *Stack) secureNATS() (string, error) {
	dir := s.natsUsers()
	if _, err := permissions.WriteFiles(dir, permissions.Options{Limits: s.options.NATSLimits}); err != nil {
		return "", err
	}
	if err := writeCertificate(dir); err != nil {
		return "", err
	}
	accounts, err := os.ReadFile(filepath.Join(dir, permissions.AccountsFile))
	if err != nil {
		return "", err
	}
	access := s.NATSAccess(permissions.Provision)
	return fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }\n%s",
		access.CertFile, access.KeyFile, access.CAFile, accounts), nil
}

// Provision creates the streams, as `agentbus provision` does before the services of a deployment start.
func (s *Stack) Provision(ctx context.Context) error {
	vars, err := env.Read(s.options.Env)
	if err != nil {
		return err
	}
	streams, err := env.Load[env.Streams](vars)
	if err != nil {
		return err
	}
	b, err := bus.Connect(ctx, bus.Options{
		URL: s.NATS, Name: string(permissions.Provision), Credentials: s.NATSAccess(permissions.Provision),
	})
	if err != nil {
		return err
	}
	defer b.Close()
	return b.Provision(ctx, bus.Storage{
		Replicas: streams.Replicas, MaxAge: streams.MaxAge, MaxBytes: streams.MaxBytes, MaxQueue: streams.MaxQueue,
		AckWait: streams.AckWait,
	})
}

// natsUsers is the folder of the seeds, the permissions and the certificate.
func (s *Stack) natsUsers() string { return filepath.Join(s.options.Dir, "nats-users") }

// NATSAccess names the files with which a role connects to NATS; none with OpenNATS.
func (s *Stack) NATSAccess(role permissions.Role) bus.Credentials {
	if s.options.OpenNATS {
		return bus.Credentials{}
	}
	dir := s.natsUsers()
	cert := filepath.Join(dir, certFile)
	return bus.Credentials{
		NKeyFile: permissions.SeedFile(dir, string(role)), CAFile: cert, CertFile: cert, KeyFile: filepath.Join(dir, keyFile),
	}
}

// natsEnv is the environment by which a service connects.
func (s *Stack) natsEnv(kind testcluster.Kind) []string {
	access := s.NATSAccess(permissions.Role(kind))
	return []string{
		"NATS_NKEY_FILE=" + access.NKeyFile, "NATS_CA_FILE=" + access.CAFile,
		"NATS_TLS_CERT_FILE=" + access.CertFile, "NATS_TLS_KEY_FILE=" + access.KeyFile,
	}
}

// refused is what NATS logs when it refuses what a client publishes or subscribes to.
var refused = regexp.MustCompile(`(?i)(publish|subscription) violation.*`)

// CheckPermissions returns an error that contains what NATS has refused, which none of the services may have tried.
func (s *Stack) CheckPermissions() error {
	for _, p := range s.group.Processes(testcluster.NATS) {
		if all := refused.FindAllString(p.Log(), -1); len(all) > 0 {
			slices.Sort(all)
			return fmt.Errorf("NATS has refused:\n%s", strings.Join(slices.Compact(all), "\n"))
		}
	}
	return nil
}

const (
	certFile = "cert.pem"
	keyFile  = "key.pem"
)

// writeCertificate writes a certificate for servers and clients on loopback, which is its own authority.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "agentbus tests"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}
