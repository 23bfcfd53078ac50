// Package provider serves an encoder of one's own, and registers it with a gateway: implement
// Provider's two methods and call Serve.
//
// A text's vector must depend on the text alone: not on the others of its batch, not on their order.
// CheckProvider (`isomer providers check`) looks at that, and at what else a provider owes its
// callers.
package provider

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	isomer "isomer.dev/go"
	commonv1 "isomer.dev/go/common/v1"
	encoderv1 "isomer.dev/go/encoder/v1"
	gatewayv1 "isomer.dev/go/gateway/v1"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Description of an encoder, as callers receive it.
type Description struct {
	ID string
	// Version changes whenever equal texts begin to get other vectors: it is part of the vector space.
	Version    string
	Dimensions int
	// MaxBatchItems is the most texts of a request; 512 where it is 0.
	MaxBatchItems int
	// Prompts has names of prompts and the text that is put before each text.
	Prompts map[string]string
	// Unnormalised vectors are not of unit length, unless a request asks for it.
	Unnormalised bool
	// Matryoshka has smaller numbers of columns that the vectors may be cut to.
	Matryoshka []int
}

// Provider is an encoder. Several goroutines call it at once.
type Provider interface {
	// Describe says what it is. It is called once.
	Describe() Description
	// Encode gives a row of Dimensions floats for each text. Prompts are in front of the texts
	// already.
	Encode(ctx context.Context, texts []string) ([][]float32, error)
}

// TokenCounter is a Provider that counts the tokens of each text. Without it words are counted.
// Callers can see that these are estimates.
type TokenCounter interface {
	CountTokens(texts []string) []uint32
}

// Options of a server.
type Options struct {
	// Listen is where it listens; 127.0.0.1 and a free port where it is empty.
	Listen string
	// Keys that callers may have; none: anybody may call.
	Keys []string
	// Gateway is a client with a key of the scope `admin`, if the provider is to be registered.
	Gateway *isomer.Client
	// Address is how the gateway reaches the server; `grpc://` and where it listens if it is empty.
	Address string
	// ID of the provider at the gateway; [ID] of the encoder's where it is empty.
	ID string
	// Lease of the registration; 30 s where it is 0.
	Lease time.Duration
	// Server has further options of the gRPC server, e.g. its credentials.
	Server []grpc.ServerOption
}

var illegal = regexp.MustCompile("[^a-z0-9]+")

// ID is an encoder's id as a provider's, which has up to 63 of a-z, 0-9 and hyphens.
func ID(encoder string) string {
	id := strings.Trim(illegal.ReplaceAllString(strings.ToLower(encoder), "-"), "-")
	if id = strings.TrimRight(id[:min(len(id), 63)], "-"); id == "" {
		return "provider"
	}
	return id
}

// Serve serves until SIGTERM or SIGINT, registered with the gateway of the options as long.
func Serve(provider Provider, options Options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	server, err := Start(provider, options)
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\n", server.Address)
	if options.Gateway != nil {
		if err := server.Register(ctx); err != nil {
			server.Stop()
			return err
		}
		fmt.Printf("registered as %s\n", server.options.ID)
	}
	<-ctx.Done()
	server.Stop()
	return nil
}

// Server is a provider that is served.
type Server struct {
	// Address where it listens.
	Address string

	options Options
	service *service
	server  *grpc.Server
	stop    chan struct{}
	renewal sync.WaitGroup
	once    sync.Once
}

// Start listens and serves.
func Start(provider Provider, options Options) (*Server, error) {
	if options.Listen == "" {
		options.Listen = "127.0.0.1:0"
	}
	if options.Lease == 0 {
		options.Lease = 30 * time.Second
	}
	listener, err := net.Listen("tcp", options.Listen)
	if err != nil {
		return nil, err
	}
	made := &service{provider: provider, is: provider.Describe(), keys: options.Keys}
	if options.ID == "" {
		options.ID = ID(made.is.ID)
	}
	if made.is.MaxBatchItems == 0 {
		made.is.MaxBatchItems = 512
	}
	with := []grpc.ServerOption{grpc.MaxRecvMsgSize(math.MaxInt32), grpc.ChainUnaryInterceptor(made.unary), grpc.ChainStreamInterceptor(made.stream)}
	server := &Server{
		Address: listener.Addr().String(), options: options, service: made, server: grpc.NewServer(append(with, options.Server...)...),
		stop: make(chan struct{}),
	}
	encoderv1.RegisterEncoderServiceServer(server.server, made)
	healthv1.RegisterHealthServer(server.server, health.NewServer())
	go func() {
		if err := server.server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			slog.Error("the provider stopped", "error", err)
		}
	}()
	return server, nil
}

// Register registers with the gateway of the options, and renews the lease until Stop.
func (s *Server) Register(ctx context.Context) error {
	address := s.options.Address
	if address == "" {
		address = "grpc://" + s.Address
	}
	id, gateway := s.service.is.ID, s.options.Gateway
	record := &gatewayv1.Provider{
		Id: s.options.ID, Kind: gatewayv1.ProviderKind_PROVIDER_KIND_ISOMER, Address: address, Encoders: map[string]string{id: id},
		Lease: durationpb.New(s.options.Lease),
	}
	if _, err := gateway.Providers.Put(ctx, record); err != nil {
		return err
	}
	s.renewal.Add(1)
	go func() {
		defer s.renewal.Done()
		s.renew(gateway, record)
	}()
	return nil
}

func (s *Server) renew(gateway *isomer.Client, record *gatewayv1.Provider) {
	every := s.options.Lease / 3
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			ctx, cancel := context.WithTimeout(context.Background(), every)
			_, err := gateway.Providers.RenewLease(ctx, record.GetId())
			var failed *isomer.Error
			if errors.As(err, &failed) && failed.Code == codes.NotFound {
				// The lease ran out, or the gateway lost its memory.
				_, err = gateway.Providers.Put(ctx, record)
			}
			if err != nil {
				slog.Warn("the lease was not renewed", "provider", record.GetId(), "error", err)
			}
			cancel()
		case <-s.stop:
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := gateway.Providers.Delete(ctx, record.GetId()); err != nil {
				slog.Warn("the provider was not taken away from its gateway", "provider", record.GetId(), "error", err)
			}
			return
		}
	}
}

// Stop takes the provider away from its gateway, then lets requests in flight end.
func (s *Server) Stop() {
	s.once.Do(func() {
		close(s.stop)
		s.renewal.Wait()
		timer := time.AfterFunc(5*time.Second, s.server.Stop)
		defer timer.Stop()
		s.server.GracefulStop()
	})
}

// service is EncoderService in front of a provider.
type service struct {
	encoderv1.UnimplementedEncoderServiceServer
	provider Provider
	is       Description
	keys     []string
}

// refused is a status with details as every Isomer server makes them.
func refused(code codes.Code, reason, field, hint, format string, values ...any) error {
	message := fmt.Sprintf(format, values...)
	if field != "" {
		message = field + ": " + message
	}
	made := status.New(code, message)
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: "isomer", Metadata: map[string]string{"mend": hint}}}
	if field != "" {
		violation := &errdetails.BadRequest_FieldViolation{Field: field, Description: message}
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{violation}})
	}
	if with, err := made.WithDetails(details...); err == nil {
		made = with
	}
	return made.Err()
}

func (s *service) admit(ctx context.Context, method string) error {
	if len(s.keys) == 0 || strings.HasPrefix(method, "/grpc.health.") {
		return nil
	}
	for _, given := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		if key, found := strings.CutPrefix(given, "Bearer "); found && slices.Contains(s.keys, key) {
			return nil
		}
	}
	return refused(codes.Unauthenticated, "UNKNOWN_KEY", "", "send `authorization: Bearer KEY`", "no key that is known")
}

func (s *service) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := s.admit(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

func (s *service) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := s.admit(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return handle(server, stream)
}

func (s *service) known(id string) error {
	if id != s.is.ID {
		return refused(codes.NotFound, "UNKNOWN_ENCODER", "encoder_id", "ask for `"+s.is.ID+"`", "no encoder `%s`", id)
	}
	return nil
}

func (s *service) prompt(name, literal string) (string, error) {
	if name == "" {
		return literal, nil
	}
	text, known := s.is.Prompts[name]
	if !known {
		hint := "this encoder has no prompts"
		if len(s.is.Prompts) > 0 {
			hint = fmt.Sprintf("one of %v", s.promptNames())
		}
		return "", refused(codes.InvalidArgument, "INVALID_ARGUMENT", "prompt_name", hint, "there is no prompt `%s`", name)
	}
	return text, nil
}

func (s *service) promptNames() []string {
	var names []string
	for name := range s.is.Prompts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (s *service) dimensions(asked *uint32) (int, error) {
	if asked == nil || int(*asked) == s.is.Dimensions {
		return s.is.Dimensions, nil
	}
	if !slices.Contains(s.is.Matryoshka, int(*asked)) {
		hint := fmt.Sprintf("one of %v", append(slices.Clone(s.is.Matryoshka), s.is.Dimensions))
		return 0, refused(codes.InvalidArgument, "INVALID_ARGUMENT", "dimensions", hint, "%d is not permitted", *asked)
	}
	return int(*asked), nil
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

func (s *service) space(prompt string, normalised bool, dimensions int) *commonv1.VectorSpace {
	return &commonv1.VectorSpace{
		Digest:  digest(s.is.ID, s.is.Version, prompt, fmt.Sprint(normalised), fmt.Sprint(dimensions)),
		ModelId: s.is.ID, WeightsDigest: digest(s.is.Version), Prompt: prompt, Pooling: s.is.Version, Normalised: normalised,
		Dimensions: uint32(dimensions), Dtype: commonv1.Dtype_DTYPE_F32,
	}
}

func (s *service) described() *encoderv1.Encoder {
	made := &encoderv1.Encoder{
		Id: s.is.ID, Revision: s.is.Version, WeightsDigest: digest(s.is.Version), VectorSpace: s.space("", !s.is.Unnormalised, s.is.Dimensions),
		Dimensions: uint32(s.is.Dimensions), MaxBatchItems: uint32(s.is.MaxBatchItems), Prompts: s.is.Prompts, Normalises: !s.is.Unnormalised,
		Similarity: commonv1.Similarity_SIMILARITY_COSINE, Dtypes: []commonv1.Dtype{commonv1.Dtype_DTYPE_F32},
		Capabilities: []encoderv1.Capability{encoderv1.Capability_CAPABILITY_DENSE}, Loaded: true,
	}
	for _, columns := range s.is.Matryoshka {
		made.MatryoshkaDimensions = append(made.MatryoshkaDimensions, uint32(columns))
	}
	return made
}

func (s *service) countTokens(texts []string) []uint32 {
	if counter, can := s.provider.(TokenCounter); can {
		return counter.CountTokens(texts)
	}
	counts := make([]uint32, len(texts))
	for place, text := range texts {
		counts[place] = uint32(len(strings.Fields(text)))
	}
	return counts
}

// ListEncoders has the one encoder.
func (s *service) ListEncoders(context.Context, *encoderv1.ListEncodersRequest) (*encoderv1.ListEncodersResponse, error) {
	return &encoderv1.ListEncodersResponse{Encoders: []*encoderv1.Encoder{s.described()}}, nil
}

// GetEncoder describes it.
func (s *service) GetEncoder(_ context.Context, request *encoderv1.GetEncoderRequest) (*encoderv1.GetEncoderResponse, error) {
	if err := s.known(request.GetId()); err != nil {
		return nil, err
	}
	return &encoderv1.GetEncoderResponse{Encoder: s.described()}, nil
}

// CountTokens counts.
func (s *service) CountTokens(_ context.Context, request *encoderv1.CountTokensRequest) (*encoderv1.CountTokensResponse, error) {
	if err := s.known(request.GetEncoderId()); err != nil {
		return nil, err
	}
	prompt, err := s.prompt(request.GetPromptName(), request.GetLiteralPrompt())
	if err != nil {
		return nil, err
	}
	texts := make([]string, 0, len(request.GetTexts()))
	for _, text := range request.GetTexts() {
		texts = append(texts, prompt+text)
	}
	return &encoderv1.CountTokensResponse{TokenCounts: s.countTokens(texts)}, nil
}

func (s *service) texts(request *encoderv1.EncodeRequest, prompt string) ([]string, error) {
	if count := len(request.GetInputs()); count < 1 || count > s.is.MaxBatchItems {
		hint := fmt.Sprintf("send 1 to %d", s.is.MaxBatchItems)
		return nil, refused(codes.InvalidArgument, "INVALID_ARGUMENT", "inputs", hint, "holds %d texts", count)
	}
	texts := make([]string, 0, len(request.GetInputs()))
	for place, input := range request.GetInputs() {
		text, ok := input.GetInput().(*encoderv1.Input_Text)
		if !ok {
			return nil, refused(codes.Unimplemented, "NOT_SERVED_YET", fmt.Sprintf("inputs[%d]", place), "send text", "only texts are taken")
		}
		texts = append(texts, prompt+text.Text)
	}
	return texts, nil
}

// Encode encodes.
func (s *service) Encode(ctx context.Context, request *encoderv1.EncodeRequest) (*encoderv1.EncodeResponse, error) {
	started := time.Now()
	if err := s.known(request.GetEncoderId()); err != nil {
		return nil, err
	}
	if dtype := request.GetOutputDtype(); dtype != commonv1.Dtype_DTYPE_UNSPECIFIED && dtype != commonv1.Dtype_DTYPE_F32 {
		return nil, refused(codes.Unimplemented, "NOT_SERVED_YET", "output_dtype", "ask for DTYPE_F32", "only 32-bit floats are given")
	}
	if output := request.GetOutput(); output != encoderv1.Output_OUTPUT_UNSPECIFIED && output != encoderv1.Output_OUTPUT_TEXT_VECTOR {
		return nil, refused(codes.Unimplemented, "NOT_SERVED_YET", "output", "ask for OUTPUT_TEXT_VECTOR", "only one vector a text is given")
	}
	dimensions, err := s.dimensions(request.Dimensions)
	if err != nil {
		return nil, err
	}
	prompt, err := s.prompt(request.GetPromptName(), request.GetLiteralPrompt())
	if err != nil {
		return nil, err
	}
	texts, err := s.texts(request, prompt)
	if err != nil {
		return nil, err
	}
	normalise := !s.is.Unnormalised
	if request.Normalise != nil {
		normalise = request.GetNormalise()
	}
	rows, err := s.provider.Encode(ctx, texts)
	if err != nil {
		return nil, err
	}
	if len(rows) != len(texts) {
		return nil, status.Errorf(codes.Internal, "Encode gave %d rows for %d texts", len(rows), len(texts))
	}
	data := make([]byte, 0, 4*dimensions*len(rows))
	for _, row := range rows {
		if len(row) != s.is.Dimensions {
			return nil, status.Errorf(codes.Internal, "Encode gave a row of %d columns in place of %d", len(row), s.is.Dimensions)
		}
		scale := float32(1)
		if normalise {
			scale = length(row[:dimensions])
		}
		for _, value := range row[:dimensions] {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(value/scale))
		}
	}
	counts := s.countTokens(texts)
	usage := &commonv1.Usage{Texts: uint64(len(texts)), TokensEstimated: true}
	for _, count := range counts {
		usage.Tokens += uint64(count)
	}
	return &encoderv1.EncodeResponse{
		Embeddings:  &commonv1.Matrix{Rows: uint32(len(rows)), Cols: uint32(dimensions), Dtype: commonv1.Dtype_DTYPE_F32, Data: data},
		TokenCounts: counts, VectorSpace: s.space(prompt, normalise, dimensions), Usage: usage,
		Timing: &commonv1.Timing{Total: durationpb.New(time.Since(started))},
	}, nil
}

// length of a row, 1 for a row of zeros. It depends on no other row.
func length(row []float32) float32 {
	var sum float64
	for _, value := range row {
		sum += float64(value) * float64(value)
	}
	if sum == 0 {
		return 1
	}
	return float32(math.Sqrt(sum))
}

// EncodeStream encodes one request after another.
func (s *service) EncodeStream(stream encoderv1.EncoderService_EncodeStreamServer) error {
	for {
		one, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer, err := s.Encode(stream.Context(), one.GetRequest())
		if err != nil {
			return err
		}
		if err := stream.Send(&encoderv1.EncodeStreamResponse{ClientIndex: one.GetClientIndex(), Response: answer}); err != nil {
			return err
		}
	}
}
