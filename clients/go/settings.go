package isomer

import (
	"crypto/tls"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
)

// DefaultAddress is where a server listens by default.
const DefaultAddress = "127.0.0.1:50051"

// TLS towards the server, by PEM files.
type TLS struct {
	// CAFile has the authorities to trust; empty: the system's.
	CAFile string
	// CertificateFile and KeyFile have the client's certificate chain and its key (mTLS).
	CertificateFile, KeyFile string
	// ServerName is the name expected in the server's certificate; empty: the address's host.
	ServerName string
}

func (t TLS) config() (*tls.Config, error) {
	roots, err := authorities(t.CAFile, "tls.ca")
	if err != nil {
		return nil, err
	}
	made := &tls.Config{RootCAs: roots, ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if (t.CertificateFile == "") != (t.KeyFile == "") {
		return nil, invalid("tls.certificate", "give both, or neither", "tls has a certificate or a private key alone")
	}
	if t.CertificateFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertificateFile, t.KeyFile)
		if err != nil {
			return nil, invalid("tls.certificate", "give PEM files that are there", "tls.certificate cannot be read: %v", err)
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made, nil
}

type settings struct {
	address         string
	tls             *TLS
	tlsConfig       *tls.Config
	key             string
	token           TokenSource
	metadata        [][2]string
	timeout         time.Duration
	retries         RetryPolicy
	inFlight        int
	batchItems      int
	batchBytes      int
	secretPlainText bool
	checkSpaces     bool
	dial            []grpc.DialOption
}

// Option of a client.
type Option func(*settings)

// WithTLS calls the server with TLS, whatever the address says.
func WithTLS(files TLS) Option { return func(s *settings) { s.tls = &files } }

// WithTLSConfig is WithTLS for those who make the configuration themselves.
func WithTLSConfig(config *tls.Config) Option {
	return func(s *settings) { s.tlsConfig = config }
}

// WithKey sends an API key with each call.
func WithKey(key string) Option { return func(s *settings) { s.key = key } }

// WithTokenSource sends tokens of an identity provider in place of a key. See ClientCredentials.
func WithTokenSource(source TokenSource) Option { return func(s *settings) { s.token = source } }

// WithMetadata sends a further name and value with each call.
func WithMetadata(name, value string) Option {
	return func(s *settings) { s.metadata = append(s.metadata, [2]string{name, value}) }
}

// WithTimeout is the time for one request, its retries included: 120 s unless it is given, no limit
// where it is 0. The context's deadline is for all requests of a call together.
func WithTimeout(timeout time.Duration) Option { return func(s *settings) { s.timeout = timeout } }

// WithRetries changes when a request is made again.
func WithRetries(policy RetryPolicy) Option { return func(s *settings) { s.retries = policy } }

// WithInFlight is the most requests of one call at once; 4 unless it is given.
func WithInFlight(count int) Option { return func(s *settings) { s.inFlight = count } }

// WithBatches is the most texts (256), and the most bytes of them (1 MiB), in one request. The
// encoder's own limit goes before.
func WithBatches(items, bytes int) Option {
	return func(s *settings) { s.batchItems, s.batchBytes = items, bytes }
}

// WithSecretOverPlainText lets a key or token travel in plain text to another machine.
func WithSecretOverPlainText() Option { return func(s *settings) { s.secretPlainText = true } }

// WithoutSpaceCheck takes answers of an encoder to the same question in another vector space than
// before, which otherwise are a *SpaceMismatchError.
func WithoutSpaceCheck() Option { return func(s *settings) { s.checkSpaces = false } }

// WithDialOptions gives gRPC further options. Interceptors among them see every attempt; package
// isomerotel has those of OpenTelemetry.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

func newSettings(address string, options []Option) *settings {
	made := &settings{
		address: address, timeout: 120 * time.Second, retries: DefaultRetries, inFlight: 4, batchItems: 256, batchBytes: 1 << 20, checkSpaces: true,
	}
	for _, option := range options {
		option(made)
	}
	return made
}

// schemes, and whether each means TLS.
var schemes = map[string]bool{"": false, "http": false, "grpc": false, "https": true, "grpcs": true}

// target is what gRPC connects to, and whether with TLS.
func (s *settings) target() (string, bool, error) {
	bad := func(why string) (string, bool, error) {
		hint := "write host:port, http://host:port, or https://host (with TLS, port 443 unless given)"
		return "", false, invalid("address", hint, "address `%s` cannot be used: %s", s.address, why)
	}
	text := strings.TrimSpace(s.address)
	given := s.tls != nil || s.tlsConfig != nil
	for _, own := range []string{"unix:", "dns:", "passthrough:"} {
		if strings.HasPrefix(text, own) {
			return text, given, nil
		}
	}
	if !strings.Contains(text, "://") {
		text = "//" + text
	}
	parts, err := url.Parse(text)
	if err != nil {
		return bad(err.Error())
	}
	secure, known := schemes[parts.Scheme]
	switch {
	case !known:
		return bad("there is no scheme `" + parts.Scheme + "`")
	case parts.Hostname() == "" || parts.User != nil || strings.Trim(parts.Path, "/") != "" || parts.RawQuery != "" || parts.Fragment != "":
		return bad("it has more or less than a host and a port")
	case given && (parts.Scheme == "http" || parts.Scheme == "grpc"):
		return bad("it says plain text, and TLS is asked for")
	}
	secure = secure || given
	port := parts.Port()
	if port == "" {
		if !secure {
			return bad("it has no port")
		}
		port = "443"
	}
	return net.JoinHostPort(parts.Hostname(), port), secure, nil
}

// check says what cannot be meant, before anything is sent.
func (s *settings) check() error {
	target, secure, err := s.target()
	if err != nil {
		return err
	}
	if s.key != "" && s.token != nil {
		return invalid("token", "give one of the two", "a key and a token source are both given")
	}
	for _, letter := range []byte(s.key) {
		if letter < 0x20 || letter > 0x7e {
			return invalid("key", "give it as `isomer keys create` printed it", "the key holds characters that no key has")
		}
	}
	secret := s.key != "" || s.token != nil
	if secret && !secure && !s.secretPlainText && !localTarget(target) {
		failed := invalid(
			"address", "write https:// in the address; or use WithSecretOverPlainText where nobody else can read the traffic",
			"the key would travel to `%s` in plain text", s.address,
		)
		failed.Reason = ReasonSecretInPlainText
		return failed
	}
	for _, one := range []struct {
		name  string
		value int
	}{{"in_flight", s.inFlight}, {"batch_items", s.batchItems}, {"batch_bytes", s.batchBytes}} {
		if one.value < 1 {
			return invalid(one.name, "give 1 or more", "%s is %d", one.name, one.value)
		}
	}
	if s.timeout < 0 {
		return invalid("timeout", "give more than 0, or 0 for no limit", "timeout is %s", s.timeout)
	}
	for _, pair := range s.metadata {
		name := pair[0]
		if name != strings.ToLower(name) || secret && (name == "authorization" || name == "x-api-key" || name == "api-key") {
			return invalid("metadata", "names are in lower case; a key is given by WithKey, not as metadata", "metadata names `%s`", name)
		}
	}
	return nil
}

func localTarget(target string) bool {
	if strings.HasPrefix(target, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(target)
	return err == nil && onThisMachine(host)
}

func onThisMachine(host string) bool {
	address := net.ParseIP(host)
	return host == "localhost" || address != nil && address.IsLoopback()
}

// environment has address and key as the command line reads them.
func environment() (string, []Option) {
	address := os.Getenv("ISOMER_SERVER")
	if address == "" {
		address = DefaultAddress
	}
	if key := os.Getenv("ISOMER_API_KEY"); key != "" {
		return address, []Option{WithKey(key)}
	}
	return address, nil
}
