// Package isomerotel gives each request of a client a span of OpenTelemetry's and its traceparent:
//
//	client, err := isomer.Connect(address, isomer.WithDialOptions(isomerotel.DialOptions()...))
//
// Spans follow the semantic conventions for rpc clients. No attribute holds texts or keys. The
// tracer provider and the propagator are otel's global ones.
package isomerotel

import (
	"context"
	"errors"
	"io"
	"strings"

	isomer "isomer.dev/go"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// DialOptions are interceptors: a span for every attempt at a request.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}

func begin(ctx context.Context, method, target string) (context.Context, trace.Span) {
	name := strings.TrimPrefix(method, "/")
	service, rpc, _ := strings.Cut(name, "/")
	tracer := otel.Tracer("isomer.dev/go", trace.WithInstrumentationVersion(isomer.Version))
	ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", service), attribute.String("rpc.method", rpc),
		attribute.String("server.address", target),
	))
	carrier := propagation.MapCarrier{}
	otel.GetTextMapPropagator().Inject(ctx, carrier)
	for key, value := range carrier {
		ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(key), value)
	}
	return ctx, span
}

func end(span trace.Span, err error) {
	if err != nil && !errors.Is(err, io.EOF) {
		code := status.Code(err)
		span.SetAttributes(attribute.Int("rpc.grpc.status_code", int(code)), attribute.String("error.type", code.String()))
		span.SetStatus(otelcodes.Error, code.String())
	}
	span.End()
}

func unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	ctx, span := begin(ctx, method, conn.Target())
	err := invoke(ctx, method, request, reply, conn, options...)
	end(span, err)
	return err
}

func stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, span := begin(ctx, method, conn.Target())
	made, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		end(span, err)
		return nil, err
	}
	// A stream that is left ends with its context.
	context.AfterFunc(made.Context(), func() { span.End() })
	return &spanned{made, span}, nil
}

type spanned struct {
	grpc.ClientStream
	span trace.Span
}

func (s *spanned) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if err != nil {
		end(s.span, err)
	}
	return err
}
