package isomer

import (
	"context"
	"iter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// transport is what every call goes through: interceptors that send key, token and metadata, bound
// the time, make requests again, and give errors their type.
type transport struct {
	settings *settings
	token    *keptToken
	conn     *grpc.ClientConn
}

func dial(s *settings) (*transport, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	target, secure, err := s.target()
	if err != nil {
		return nil, err
	}
	t := &transport{settings: s}
	if s.token != nil {
		t.token = &keptToken{source: s.token}
	}
	security := insecure.NewCredentials()
	if secure {
		config := s.tlsConfig
		if config == nil {
			files := TLS{}
			if s.tls != nil {
				files = *s.tls
			}
			if config, err = files.config(); err != nil {
				return nil, err
			}
		}
		security = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(security),
		// Vectors take 4 bytes x rows x dimensions; gRPC's default is 4 MiB.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<31-1), grpc.MaxCallSendMsgSize(1<<31-1)),
		grpc.WithUserAgent("isomer-client-go/" + Version),
		// A server that restarts is found again in moments, not in gRPC's second and more.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// A connection that died without a word is noticed while an answer is awaited.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// Requests are made again here, where RetryInfo is read.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithChainUnaryInterceptor(t.unary),
		grpc.WithChainStreamInterceptor(t.stream),
	}
	t.conn, err = grpc.NewClient(target, append(options, s.dial...)...)
	if err != nil {
		return nil, invalid("address", "write host:port", "address `%s` cannot be used: %v", s.address, err)
	}
	return t, nil
}

// headers has what goes with each call, and the token among it.
func (t *transport) headers(ctx context.Context) (context.Context, string, error) {
	var pairs []string
	for _, pair := range t.settings.metadata {
		pairs = append(pairs, pair[0], pair[1])
	}
	secret := t.settings.key
	if t.token != nil {
		value, err := t.token.value(ctx)
		if err != nil {
			return ctx, "", fromRPC(err, "", 1)
		}
		secret = value
	}
	if secret != "" {
		pairs = append(pairs, "authorization", "Bearer "+secret)
	}
	if len(pairs) == 0 {
		return ctx, secret, nil
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...), secret, nil
}

// unary makes a request, again as the policy says.
func (t *transport) unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	if t.settings.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.settings.timeout)
		defer cancel()
	}
	for attempt := 1; ; attempt++ {
		with, secret, err := t.headers(ctx)
		if err != nil {
			return err
		}
		err = invoke(with, method, request, reply, conn, options...)
		if err == nil {
			return nil
		}
		failed := fromRPC(err, method, attempt)
		if err := t.pause(ctx, failed, attempt, secret); err != nil {
			return err
		}
	}
}

// pause waits before a request is made again; the error where that makes no sense.
func (t *transport) pause(ctx context.Context, failed *Error, attempt int, secret string) error {
	if ctx.Err() != nil {
		return failed
	}
	if attempt == 1 && t.token != nil && failed.Code == codes.Unauthenticated && secret != "" {
		// A new token may replace it: once more, at once.
		t.token.refused(secret)
		return nil
	}
	deadline, _ := ctx.Deadline()
	wait, again := t.settings.retries.wait(failed, attempt, !once[failed.Method], deadline)
	if !again {
		return failed
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fromRPC(ctx.Err(), failed.Method, attempt)
	}
}

// stream opens a stream, once: what begins it again knows where it stood.
func (t *transport) stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	with, _, err := t.headers(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := open(with, desc, conn, method, options...)
	if err != nil {
		return nil, fromRPC(err, method, 1)
	}
	return &typedStream{stream, method}, nil
}

// typedStream gives errors of a stream their type.
type typedStream struct {
	grpc.ClientStream
	method string
}

func (s *typedStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if _, ok := status.FromError(err); err != nil && ok {
		return fromRPC(err, s.method, 1)
	}
	// io.EOF: the stream's end.
	return err
}

// ordered does work for each item, inFlight of them at once, and yields results in the order of the
// items. Items are read only as far as they are worked on. Leaving the loop, or an error of any
// item, cancels the others.
func ordered[T, U any](ctx context.Context, items iter.Seq[T], inFlight int, work func(context.Context, T) (U, error)) iter.Seq2[U, error] {
	return func(yield func(U, error) bool) {
		type result struct {
			value U
			err   error
		}
		ctx, cancel := context.WithCancel(ctx)
		next, stop := iter.Pull(items)
		defer stop()
		var waiting []chan result
		defer func() {
			cancel()
			for _, one := range waiting {
				<-one
			}
		}()
		for {
			for len(waiting) < inFlight {
				item, more := next()
				if !more {
					break
				}
				done := make(chan result, 1)
				waiting = append(waiting, done)
				go func() {
					value, err := work(ctx, item)
					done <- result{value, err}
				}()
			}
			if len(waiting) == 0 {
				return
			}
			first := <-waiting[0]
			waiting = waiting[1:]
			if !yield(first.value, first.err) || first.err != nil {
				return
			}
		}
	}
}

// pages yields the entries of every page, each page fetched when the one before is used up.
func pages[E any](fetch func(token string) (entries []E, next string, err error)) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for token := ""; ; {
			entries, next, err := fetch(token)
			if err != nil {
				var none E
				yield(none, err)
				return
			}
			for _, entry := range entries {
				if !yield(entry, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}
