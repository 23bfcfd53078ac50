package isomer_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	isomer "isomer.dev/go"
	commonv1 "isomer.dev/go/common/v1"
	encoderv1 "isomer.dev/go/encoder/v1"
	gatewayv1 "isomer.dev/go/gateway/v1"
	"isomer.dev/go/isomerotel"
	"isomer.dev/go/provider"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// lengths encodes a text as its length and 1.
type lengths struct {
	lock  sync.Mutex
	calls int
	fail  func(call int) error
}

func (l *lengths) Describe() provider.Description {
	return provider.Description{ID: "lengths", Version: "1", Dimensions: 2, MaxBatchItems: 8, Unnormalised: true, Prompts: map[string]string{"query": "q: "}}
}

func (l *lengths) Encode(_ context.Context, texts []string) ([][]float32, error) {
	l.lock.Lock()
	l.calls++
	call, fail := l.calls, l.fail
	l.lock.Unlock()
	if fail != nil {
		if err := fail(call); err != nil {
			return nil, err
		}
	}
	var rows [][]float32
	for _, text := range texts {
		rows = append(rows, []float32{float32(len(text)), 1})
	}
	return rows, nil
}

func served(t *testing.T, encoder provider.Provider, options provider.Options, with ...isomer.Option) *isomer.Client {
	t.Helper()
	server, err := provider.Start(encoder, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	client, err := isomer.Connect(server.Address, with...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func texts(count int) []string {
	var made []string
	for number := range count {
		made = append(made, string(make([]byte, number)))
	}
	return made
}

func TestAnyNumberOfTextsIsEncodedInOrder(t *testing.T) {
	encoder := &lengths{}
	client := served(t, encoder, provider.Options{})
	found, err := client.Encode(context.Background(), texts(50), isomer.EncodeOptions{Encoder: "lengths"})
	if err != nil || found.Rows != 50 || encoder.calls != 7 || found.Usage.Texts != 50 {
		t.Fatalf("%v, %v, %d calls", found, err, encoder.calls)
	}
	for row := range 50 {
		if !slices.Equal(found.Row(row), []float32{float32(row), 1}) {
			t.Errorf("row %d is %v", row, found.Row(row))
		}
	}
	ids := isomer.EncodeOptions{Encoder: "lengths"}
	var failed *isomer.Error
	if _, err := client.EncodeTokenIDs(context.Background(), [][]uint32{{1}}, ids); !errors.As(err, &failed) || failed.Code != codes.Unimplemented || failed.Field != "inputs[0]" {
		t.Errorf("the provider takes no token ids: %v", err)
	}
}

func TestRequestsAreMadeAgainAndAFaultIsFinal(t *testing.T) {
	encoder := &lengths{fail: func(call int) error {
		if call <= 2 {
			return status.Error(codes.Unavailable, "gone")
		}
		return nil
	}}
	client := served(t, encoder, provider.Options{}, isomer.WithRetries(isomer.RetryPolicy{Unreachable: 3, FirstWait: time.Millisecond, LongestWait: time.Second}))
	ask := func() error {
		_, err := client.Encode(context.Background(), []string{"a"}, isomer.EncodeOptions{Encoder: "lengths"})
		return err
	}
	if err := ask(); err != nil || encoder.calls != 3 {
		t.Errorf("%v after %d calls", err, encoder.calls)
	}
	encoder.fail = func(int) error { return status.Error(codes.Internal, "broken") }
	var failed *isomer.Error
	if err := ask(); !errors.As(err, &failed) || failed.Code != codes.Internal || failed.Attempts != 1 || encoder.calls != 4 {
		t.Errorf("%v after %d calls", failed, encoder.calls)
	}
	if code := status.Code(failed); code != codes.Internal {
		t.Errorf("status.Code says %s", code)
	}
}

func TestKeysOfAProvider(t *testing.T) {
	encoder := &lengths{}
	server, err := provider.Start(encoder, provider.Options{Keys: []string{"iso_right"}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	for key, due := range map[string]codes.Code{"iso_right": codes.OK, "iso_wrong": codes.Unauthenticated} {
		client, err := isomer.Connect(server.Address, isomer.WithKey(key))
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Encode(context.Background(), []string{"a"}, isomer.EncodeOptions{Encoder: "lengths"})
		if status.Code(err) != due {
			t.Errorf("%s: %v", key, err)
		}
		_ = client.Close()
	}
}

func TestSpansAreOfTheCallersTrace(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	otel.SetTracerProvider(traces)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	client := served(t, &lengths{}, provider.Options{}, isomer.WithDialOptions(isomerotel.DialOptions()...))
	ctx, span := traces.Tracer("test").Start(context.Background(), "mine")
	if _, err := client.Encode(ctx, []string{"a"}, isomer.EncodeOptions{Encoder: "lengths"}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Encode(ctx, []string{"a"}, isomer.EncodeOptions{Encoder: "lengths", PromptName: "quary"}); err == nil {
		t.Fatal("there is no such prompt")
	}
	span.End()
	var named []string
	for _, one := range recorder.Ended() {
		if one.SpanContext().TraceID() != span.SpanContext().TraceID() {
			t.Errorf("%s is of another trace", one.Name())
		}
		named = append(named, one.Name()+" "+one.Status().Code.String())
	}
	due := []string{
		"isomer.encoder.v1.EncoderService/GetEncoder Unset", "isomer.encoder.v1.EncoderService/Encode Unset",
		"isomer.encoder.v1.EncoderService/Encode Error", "mine Unset",
	}
	if !slices.Equal(named, due) {
		t.Errorf("%v", named)
	}
}

// gateway is a registry that forgets its leases.
type gateway struct {
	gatewayv1.UnimplementedProviderServiceServer
	lock  sync.Mutex
	there bool
	asked int
	seen  chan string
}

func (g *gateway) UpdateProvider(_ context.Context, request *gatewayv1.UpdateProviderRequest) (*gatewayv1.UpdateProviderResponse, error) {
	if !request.GetAllowMissing() {
		return nil, status.Error(codes.NotFound, "none")
	}
	g.lock.Lock()
	defer g.lock.Unlock()
	g.there = true
	g.seen <- "put " + request.GetProvider().GetId()
	return &gatewayv1.UpdateProviderResponse{Provider: request.GetProvider()}, nil
}

func (g *gateway) RenewLease(context.Context, *gatewayv1.RenewLeaseRequest) (*gatewayv1.RenewLeaseResponse, error) {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.asked++; g.asked == 2 {
		g.there = false
	}
	if !g.there {
		g.seen <- "forgot"
		return nil, status.Error(codes.NotFound, "none")
	}
	g.seen <- "renew"
	return &gatewayv1.RenewLeaseResponse{ExpireTime: timestamppb.Now()}, nil
}

func (g *gateway) DeleteProvider(_ context.Context, request *gatewayv1.DeleteProviderRequest) (*gatewayv1.DeleteProviderResponse, error) {
	g.seen <- "delete " + request.GetId()
	return &gatewayv1.DeleteProviderResponse{}, nil
}

func TestALeaseIsRenewedAndTakenAgainWhenItIsForgotten(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := &gateway{seen: make(chan string, 1000)}
	server := grpc.NewServer()
	gatewayv1.RegisterProviderServiceServer(server, registry)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	client, err := isomer.Connect(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	mine, err := provider.Start(&lengths{}, provider.Options{Gateway: client, Lease: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := mine.Register(context.Background()); err != nil {
		t.Fatal(err)
	}
	// Between them may be others: on a busy machine a renewal may take longer than it has.
	awaited := func(due string) {
		for seen := ""; seen != due; {
			select {
			case seen = <-registry.seen:
			case <-time.After(time.Minute):
				t.Fatalf("%s did not come", due)
			}
		}
	}
	for _, due := range []string{"put lengths", "renew", "forgot", "put lengths", "renew"} {
		awaited(due)
	}
	mine.Stop()
	awaited("delete lengths")
}

// headers records the metadata of each call.
type headers struct {
	encoderv1.UnimplementedEncoderServiceServer
	came metadata.MD
}

func (h *headers) ListEncoders(ctx context.Context, _ *encoderv1.ListEncodersRequest) (*encoderv1.ListEncodersResponse, error) {
	h.came, _ = metadata.FromIncomingContext(ctx)
	return &encoderv1.ListEncodersResponse{Encoders: []*encoderv1.Encoder{{Id: "one", VectorSpace: &commonv1.VectorSpace{}}}}, nil
}

func TestStubsOnTheConnectionHaveWhatTheClientSends(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := &headers{}
	server := grpc.NewServer()
	encoderv1.RegisterEncoderServiceServer(server, seen)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	client, err := isomer.Connect(listener.Addr().String(), isomer.WithKey("iso_mine"), isomer.WithMetadata("x-team", "search"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := encoderv1.NewEncoderServiceClient(client.Conn()).ListEncoders(context.Background(), &encoderv1.ListEncodersRequest{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seen.came.Get("authorization"), []string{"Bearer iso_mine"}) || !slices.Equal(seen.came.Get("x-team"), []string{"search"}) {
		t.Errorf("%v", seen.came)
	}
	var failed *isomer.Error
	_, err = encoderv1.NewEncoderServiceClient(client.Conn()).GetEncoder(context.Background(), &encoderv1.GetEncoderRequest{Id: "one"})
	if !errors.As(err, &failed) || failed.Code != codes.Unimplemented {
		t.Errorf("%v", err)
	}
}
