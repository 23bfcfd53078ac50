package isomer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

const (
	// tokenMargin is how long before its end a token is not sent any more.
	tokenMargin     = 30 * time.Second
	mostAnswerBytes = 1 << 20
)

// Token of an identity provider. Without an end it is asked for again only when a server refuses it.
type Token struct {
	Value     string
	ExpiresAt time.Time
}

// String hides the token from logs.
func (t Token) String() string { return fmt.Sprintf("Token(expires at %s)", t.ExpiresAt) }

// GoString hides the token from logs.
func (t Token) GoString() string { return t.String() }

func (t Token) usable() bool {
	return t.Value != "" && (t.ExpiresAt.IsZero() || time.Now().Before(t.ExpiresAt.Add(-tokenMargin)))
}

// TokenSource gives tokens when they are needed. Clients keep a token until it ends.
type TokenSource interface {
	Token(ctx context.Context) (Token, error)
}

// TokenFunc is a function as a TokenSource.
type TokenFunc func(ctx context.Context) (Token, error)

// Token calls the function.
func (f TokenFunc) Token(ctx context.Context) (Token, error) { return f(ctx) }

// keptToken is the token in use.
type keptToken struct {
	source TokenSource
	lock   sync.Mutex
	token  Token
}

func (k *keptToken) value(ctx context.Context) (string, error) {
	k.lock.Lock()
	defer k.lock.Unlock()
	if !k.token.usable() {
		token, err := k.source.Token(ctx)
		if err != nil {
			return "", err
		}
		if token.Value == "" {
			return "", invalid("token", "return a Token with a Value", "the token source gave no token")
		}
		k.token = token
	}
	return k.token.Value, nil
}

// refused forgets a token that a server does not take, unless another one is in use by now.
func (k *keptToken) refused(value string) {
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.token.Value == value {
		k.token = Token{}
	}
}

// ClientCredentials gets tokens by OAuth 2.0's client-credentials grant (RFC 6749, 4.4). The address
// of the token endpoint is TokenURL, or is found at the Issuer (OpenID Connect Discovery).
type ClientCredentials struct {
	ClientID, ClientSecret string
	Issuer, TokenURL       string
	Scope, Audience        string
	// CAFile has the authorities to trust; empty: the system's.
	CAFile string
	// Timeout of a request to the identity provider; 10 s where it is 0.
	Timeout time.Duration

	lock   sync.Mutex
	client *http.Client
	found  string
}

// String hides the secret from logs.
func (c *ClientCredentials) String() string { return fmt.Sprintf("ClientCredentials(%q)", c.ClientID) }

// GoString hides the secret from logs.
func (c *ClientCredentials) GoString() string { return c.String() }

// Token asks the identity provider.
func (c *ClientCredentials) Token(ctx context.Context) (Token, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.prepare(ctx); err != nil {
		return Token{}, err
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {c.ClientID}, "client_secret": {c.ClientSecret}}
	for name, value := range map[string]string{"scope": c.Scope, "audience": c.Audience} {
		if value != "" {
			form.Set(name, value)
		}
	}
	var answer struct {
		AccessToken string   `json:"access_token"`
		ExpiresIn   *float64 `json:"expires_in"`
		Error       string   `json:"error"`
	}
	if err := c.json(ctx, c.found, form, &answer); err != nil {
		return Token{}, err
	}
	if answer.AccessToken == "" {
		return Token{}, noToken("the identity provider gave no token: " + answer.Error)
	}
	token := Token{Value: answer.AccessToken}
	if answer.ExpiresIn != nil {
		token.ExpiresAt = time.Now().Add(time.Duration(*answer.ExpiresIn * float64(time.Second)))
	}
	return token, nil
}

// prepare checks the settings and finds the token endpoint, once.
func (c *ClientCredentials) prepare(ctx context.Context) error {
	if c.found != "" {
		return nil
	}
	if (c.Issuer == "") == (c.TokenURL == "") {
		return invalid("issuer", "give one of the two", "Issuer and TokenURL are both given, or neither")
	}
	if given := c.Issuer + c.TokenURL; !confidential(given) {
		return invalid("issuer", "a secret is sent there: write https://", "`%s` is not an https address", given)
	}
	if c.client == nil {
		roots, err := authorities(c.CAFile, "ca_file")
		if err != nil {
			return err
		}
		timeout := c.Timeout
		if timeout == 0 {
			timeout = 10 * time.Second
		}
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
		// A redirect could carry the secret elsewhere.
		none := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		c.client = &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: none}
	}
	if c.TokenURL != "" {
		c.found = c.TokenURL
		return nil
	}
	var answer struct {
		TokenEndpoint string `json:"token_endpoint"`
	}
	if err := c.json(ctx, strings.TrimRight(c.Issuer, "/")+"/.well-known/openid-configuration", nil, &answer); err != nil {
		return err
	}
	if !confidential(answer.TokenEndpoint) {
		return noToken("the issuer names no token endpoint with https")
	}
	c.found = answer.TokenEndpoint
	return nil
}

func (c *ClientCredentials) json(ctx context.Context, address string, form url.Values, into any) error {
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return invalid("issuer", "write https://…", "the identity provider's address cannot be used: %v", err)
	}
	request.Header.Set("accept", "application/json")
	if form != nil {
		request.Header.Set("content-type", "application/x-www-form-urlencoded")
	}
	answer, err := c.client.Do(request)
	if err != nil {
		return &Error{Code: codes.Unavailable, Field: "token", Message: "the identity provider cannot be asked: " + err.Error(), Attempts: 1, cause: err}
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return noToken(fmt.Sprintf("the identity provider answered %d", answer.StatusCode))
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, mostAnswerBytes)).Decode(into); err != nil {
		return noToken("the identity provider's answer is no JSON: " + err.Error())
	}
	return nil
}

func noToken(message string) *Error {
	return &Error{Code: codes.Unauthenticated, Field: "token", Message: message, Hint: "check client id, secret and issuer", Attempts: 1}
}

func confidential(address string) bool {
	parts, err := url.Parse(address)
	if err != nil {
		return false
	}
	return parts.Scheme == "https" && parts.Host != "" || parts.Scheme == "http" && onThisMachine(parts.Hostname())
}

// authorities of a PEM file; nil, the system's, without one.
func authorities(file, field string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, invalid(field, "give a PEM file that is there", "%s cannot be read: %v", field, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, invalid(field, "give a PEM file with certificates", "%s holds no certificate", field)
	}
	return pool, nil
}
