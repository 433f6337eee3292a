package service_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/service"
)

// writeCertificate replaces a certificate and its key, at a time, and returns the certificate.
func writeCertificate(t *testing.T, certFile, keyFile string, serial int64, at time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return der
}

func TestACertificateThatIsReplacedIsLoadedWithinAMinute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	synctest.Test(t, func(t *testing.T) {
		first := writeCertificate(t, certFile, keyFile, 1, time.Unix(1, 0))
		certificate, err := service.OpenCertificate(certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		config := certificate.Config()
		offers := func(when string, want []byte) {
			t.Helper()
			if got, err := config.GetCertificate(nil); err != nil || !bytes.Equal(got.Certificate[0], want) {
				t.Errorf("%s: got another certificate (%v)", when, err)
			}
		}
		offers("at the start", first)
		second := writeCertificate(t, certFile, keyFile, 2, time.Unix(2, 0))
		offers("within a minute", first)
		time.Sleep(time.Minute)
		offers("after a minute", second)
		if err := os.WriteFile(certFile, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		offers("after a file that is not a certificate", second)
	})
}

func TestATLSConfigurationThatIsIncompleteIsAnError(t *testing.T) {
	t.Parallel()
	if c, err := service.OpenCertificate("", ""); c != nil || err != nil {
		t.Errorf("without files: got %v, %v, want neither", c, err)
	}
	for _, files := range [][2]string{{"cert.pem", ""}, {"", "key.pem"}, {"/nonexistent/cert.pem", "/nonexistent/key.pem"}} {
		if _, err := service.OpenCertificate(files[0], files[1]); err == nil {
			t.Errorf("%q: got no error", files)
		}
	}
}
