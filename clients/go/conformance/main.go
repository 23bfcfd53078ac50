// Runs the cases of clients/conformance with this client: `conformance CASES RESULTS`.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	isomer "isomer.dev/go"
	encoderv1 "isomer.dev/go/encoder/v1"
	evalv1 "isomer.dev/go/eval/v1"
	gatewayv1 "isomer.dev/go/gateway/v1"
	"isomer.dev/go/isomerotel"
	transformv1 "isomer.dev/go/transform/v1"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/genproto/googleapis/rpc/code"
)

const mostOfACase = 120 * time.Second

type connect struct {
	Address         string            `json:"address"`
	Metadata        map[string]string `json:"metadata"`
	Key             string            `json:"key"`
	Tokens          []string          `json:"tokens"`
	CAFile          string            `json:"ca_file"`
	CertificateFile string            `json:"certificate_file"`
	KeyFile         string            `json:"key_file"`
	InFlight        int               `json:"in_flight"`
	BatchItems      int               `json:"batch_items"`
	BatchBytes      int               `json:"batch_bytes"`
	TimeoutMS       int               `json:"timeout_ms"`
	Traceparent     string            `json:"traceparent"`
}

type step struct {
	Op         string          `json:"op"`
	Encoder    string          `json:"encoder"`
	Encoders   json.RawMessage `json:"encoders"`
	Texts      []string        `json:"texts"`
	Prompt     *string         `json:"prompt"`
	PromptName string          `json:"prompt_name"`
	Role       string          `json:"role"`
	Dimensions int             `json:"dimensions"`
	Normalise  *bool           `json:"normalise"`
	DType      string          `json:"dtype"`
	Truncation string          `json:"truncation"`
	Outputs    []string        `json:"outputs"`

	MaxActiveDimensions int `json:"max_active_dimensions"`

	Partial         bool                 `json:"partial"`
	Collection      string               `json:"collection"`
	TimeoutMS       int                  `json:"timeout_ms"`
	CancelAfterMS   int                  `json:"cancel_after_ms"`
	LeaveAfter      int                  `json:"leave_after"`
	Threads         int                  `json:"threads"`
	Query           string               `json:"query"`
	Documents       []string             `json:"documents"`
	TopN            int                  `json:"top_n"`
	Transformation  string               `json:"transformation"`
	Generator       string               `json:"generator"`
	Sources         []source             `json:"sources"`
	Pooling         string               `json:"pooling"`
	OriginalWeight  *float64             `json:"original_weight"`
	Task            string               `json:"task"`
	First           [][]float32          `json:"first"`
	Second          [][]float32          `json:"second"`
	Labels          []float64            `json:"labels"`
	Dataset         string               `json:"dataset"`
	Limit           int                  `json:"limit"`
	PValues         []float64            `json:"p_values"`
	Reference       []float64            `json:"reference"`
	Treatments      map[string][]float64 `json:"treatments"`
	Seed            *uint64              `json:"seed"`
	Suite           string               `json:"suite"`
	Transformations []string             `json:"transformations"`
	Formats         []string             `json:"formats"`
	ID              string               `json:"id"`
	Address         string               `json:"address"`
	Name            string               `json:"name"`
	Scopes          []string             `json:"scopes"`
}

type source struct {
	Transformation string `json:"transformation"`
	Generator      string `json:"generator"`
}

type conformanceCase struct {
	ID      string  `json:"id"`
	Connect connect `json:"connect"`
	Steps   []step  `json:"steps"`
}

type value = map[string]any

var dtypes = map[string]isomer.DType{"": isomer.F32, "f32": isomer.F32, "f16": isomer.F16, "int8": isomer.Int8, "ubinary": isomer.UBinary}

// enum is the number of a word of the table in an enumeration of the protos.
func enum(values map[string]int32, prefix, word string) int32 {
	number, known := values[prefix+strings.ToUpper(strings.ReplaceAll(word, "-", "_"))]
	if word != "" && !known {
		panic(prefix + word + " is unknown")
	}
	return number
}

func digest(row []byte) string {
	sum := sha256.Sum256(row)
	return hex.EncodeToString(sum[:])[:16]
}

func digests(matrix isomer.Matrix) []string {
	rows := make([]string, 0, matrix.Rows)
	for row := range matrix.Rows {
		rows = append(rows, digest(matrix.RowBytes(row)))
	}
	return rows
}

// runner does the steps of one case.
type runner struct {
	client      *isomer.Client
	options     []isomer.Option
	address     string
	collections map[string]*isomer.Collection
}

func (r *runner) encodeOptions(step step) isomer.EncodeOptions {
	options := isomer.EncodeOptions{
		Encoder: step.Encoder, Prompt: step.Prompt, PromptName: step.PromptName, Role: step.Role, Dimensions: step.Dimensions, Normalise: step.Normalise,
		DType: dtypes[step.DType], Partial: step.Partial,
		Truncation: encoderv1.Truncation(enum(encoderv1.Truncation_value, "TRUNCATION_", step.Truncation)),
	}
	if step.Collection != "" {
		if r.collections[step.Collection] == nil {
			r.collections[step.Collection] = isomer.NewCollection(step.Collection)
		}
		options.Collection = r.collections[step.Collection]
	}
	return options
}

func (r *runner) encode(ctx context.Context, step step) (value, error) {
	found, err := r.client.Encode(ctx, step.Texts, r.encodeOptions(step))
	if err != nil {
		return nil, err
	}
	failed := []int{}
	for _, one := range found.Errors {
		failed = append(failed, one.Index)
	}
	counts := append([]uint32{}, found.TokenCounts...)
	return value{"rows": digests(found.Matrix), "cols": found.Cols, "token_counts": counts, "failed": failed, "view": found.IsView()}, nil
}

func (r *runner) encodeStream(ctx context.Context, step step) (value, error) {
	read, atFirst, rows, batches := 0, 0, []string{}, 0
	texts := func(yield func(string) bool) {
		for _, text := range step.Texts {
			read++
			if !yield(text) {
				return
			}
		}
	}
	for part, err := range r.client.EncodeStream(ctx, texts, r.encodeOptions(step)) {
		if err != nil {
			return nil, err
		}
		if atFirst == 0 {
			atFirst = read
		}
		rows = append(rows, digests(part.Matrix)...)
		if batches++; batches == step.LeaveAfter {
			break
		}
	}
	return value{"rows": rows, "read_at_first": atFirst}, nil
}

func (r *runner) encodeTokens(ctx context.Context, step step) (value, error) {
	found, err := r.client.EncodeTokens(ctx, step.Texts, r.encodeOptions(step))
	if err != nil {
		return nil, err
	}
	rows, counts := []string{}, []int{}
	for _, text := range found.Texts {
		rows = append(rows, digests(text)...)
		counts = append(counts, text.Rows)
	}
	return value{"rows": rows, "counts": counts}, nil
}

func (r *runner) encodeOutputs(ctx context.Context, step step) (value, error) {
	options := isomer.OutputsOptions{EncodeOptions: r.encodeOptions(step), MaxActiveDimensions: step.MaxActiveDimensions}
	for _, output := range step.Outputs {
		options.Outputs = append(options.Outputs, isomer.Output(enum(encoderv1.Output_value, "OUTPUT_", output)))
	}
	found, err := r.client.EncodeOutputs(ctx, step.Texts, options)
	if err != nil {
		return nil, err
	}
	spaces := value{}
	made := value{"spaces": spaces}
	if found.TextVector != nil {
		made["rows"] = digests(found.TextVector.Matrix)
		spaces["text_vector"] = found.TextVector.Space.Digest
	}
	if found.Sparse != nil {
		rows := []string{}
		for _, one := range found.Sparse.Texts {
			var row []byte
			for _, index := range one.Indices {
				row = binary.LittleEndian.AppendUint32(row, index)
			}
			for _, value := range one.Values {
				row = binary.LittleEndian.AppendUint32(row, math.Float32bits(value))
			}
			rows = append(rows, digest(row))
		}
		made["sparse"] = rows
		spaces["sparse"] = found.Sparse.Space.Digest
	}
	if found.TokenVectors != nil {
		rows, counts := []string{}, []int{}
		for _, text := range found.TokenVectors.Texts {
			rows = append(rows, digests(text)...)
			counts = append(counts, text.Rows)
		}
		made["token_rows"], made["counts"] = rows, counts
		spaces["token_vectors"] = found.TokenVectors.Space.Digest
	}
	return made, nil
}

func (r *runner) threads(ctx context.Context, step step) (value, error) {
	parts, errs := make([][]string, step.Threads), make([]error, step.Threads)
	var all sync.WaitGroup
	for place := range step.Threads {
		all.Add(1)
		go func() {
			defer all.Done()
			found, err := r.client.Encode(ctx, step.Texts, isomer.EncodeOptions{Encoder: step.Encoder})
			if errs[place] = err; err == nil {
				parts[place] = digests(found.Matrix)
			}
		}()
	}
	all.Wait()
	return value{"rows": slices.Concat(parts...)}, errors.Join(errs...)
}

func collect[E, R any](entries iter.Seq2[E, error], of func(E) R) ([]R, error) {
	made := []R{}
	for entry, err := range entries {
		if err != nil {
			return nil, err
		}
		made = append(made, of(entry))
	}
	return made, nil
}

func (r *runner) encoders(ctx context.Context, _ step) (value, error) {
	ids, err := collect(r.client.Encoders(ctx), (*encoderv1.Encoder).GetId)
	return value{"ids": ids}, err
}

func (r *runner) encoder(ctx context.Context, step step) (value, error) {
	found, err := r.client.Encoder(ctx, step.Encoder)
	return value{"dimensions": found.GetDimensions(), "prompts": found.GetPrompts()}, err
}

func (r *runner) countTokens(ctx context.Context, step step) (value, error) {
	counts, err := r.client.CountTokens(ctx, step.Texts, isomer.EncodeOptions{Encoder: step.Encoder})
	return value{"token_counts": counts}, err
}

func (r *runner) tokenize(ctx context.Context, step step) (value, error) {
	found, err := r.client.Tokenize(ctx, &encoderv1.TokenizeRequest{EncoderId: step.Encoder, Texts: step.Texts, SpecialTokens: isomer.Ptr(true)})
	ids := [][]uint32{}
	for _, text := range found {
		one := []uint32{}
		for _, token := range text {
			one = append(one, token.GetId())
		}
		ids = append(ids, one)
	}
	return value{"ids": ids}, err
}

func (r *runner) rerank(ctx context.Context, step step) (value, error) {
	found, err := r.client.Rerank(ctx, step.Query, step.Documents, isomer.RerankOptions{Encoder: step.Encoder, TopN: step.TopN})
	if err != nil {
		return nil, err
	}
	ranking := [][]any{}
	for _, one := range found.Results {
		ranking = append(ranking, []any{one.Index, float64(one.Score)})
	}
	return value{"ranking": ranking}, nil
}

func (r *runner) transform(ctx context.Context, step step) (value, error) {
	options := isomer.TransformOptions{Transformation: step.Transformation, Generator: step.Generator}
	found, err := r.client.Transform(ctx, isomer.Items(step.Texts...), options)
	if err != nil {
		return nil, err
	}
	indices := []uint32{}
	for _, result := range found.Results {
		indices = append(indices, result.GetIndex())
	}
	return value{"texts": found.Texts(), "indices": indices}, nil
}

func (r *runner) transformStream(ctx context.Context, step step) (value, error) {
	options := isomer.TransformOptions{Transformation: step.Transformation, Generator: step.Generator}
	found := map[uint32]string{}
	for result, err := range r.client.TransformStream(ctx, isomer.Items(step.Texts...), options) {
		if err != nil {
			return nil, err
		}
		found[result.GetIndex()] = result.GetText()
	}
	texts, indices := []string{}, []uint32{}
	for index := range uint32(len(step.Texts)) {
		if text, there := found[index]; there {
			texts, indices = append(texts, text), append(indices, index)
		}
	}
	return value{"texts": texts, "indices": indices}, nil
}

func (r *runner) encodeAugmented(ctx context.Context, step step) (value, error) {
	options := isomer.AugmentOptions{
		Encoder: step.Encoder, OriginalWeight: step.OriginalWeight,
		Pooling: transformv1.AugmentationPooling(enum(transformv1.AugmentationPooling_value, "AUGMENTATION_POOLING_", step.Pooling)),
	}
	for _, one := range step.Sources {
		options.Sources = append(options.Sources, isomer.Source{Transformation: one.Transformation, Generator: one.Generator})
	}
	found, err := r.client.EncodeAugmented(ctx, isomer.Items(step.Texts...), options)
	if err != nil {
		return nil, err
	}
	return value{"rows": digests(found.Matrix)}, nil
}

func task(word string) evalv1.TaskType {
	return evalv1.TaskType(enum(evalv1.TaskType_value, "TASK_TYPE_", word))
}

func scored(found *evalv1.ScoreResponse) value {
	return value{"main_score_key": found.GetMainScoreKey(), "main_score": found.GetMainScore(), "items": found.GetItems()}
}

func (r *runner) scorePairs(ctx context.Context, step step) (value, error) {
	first, err := isomer.NewMatrix(step.First)
	if err != nil {
		return nil, err
	}
	second, err := isomer.NewMatrix(step.Second)
	if err != nil {
		return nil, err
	}
	found, err := r.client.Tasks.ScorePairs(ctx, task(step.Task), first, second, step.Labels)
	return scored(found), err
}

func (r *runner) scoreDataset(ctx context.Context, step step) (value, error) {
	found, err := r.client.Tasks.ScoreDataset(ctx, task(step.Task), step.Dataset, step.Encoder, step.Limit)
	return scored(found), err
}

func (r *runner) adjustPValues(ctx context.Context, step step) (value, error) {
	found, err := r.client.Statistics.AdjustPValues(ctx, &evalv1.AdjustPValuesRequest{PValues: step.PValues})
	return value{"holm": found.GetHolm(), "benjamini_hochberg": found.GetBenjaminiHochberg()}, err
}

func (r *runner) compare(ctx context.Context, step step) (value, error) {
	request := &evalv1.CompareRequest{Reference: isomer.Series("reference", step.Reference...), Seed: step.Seed}
	for name, values := range step.Treatments {
		request.Treatments = append(request.Treatments, isomer.Series(name, values...))
	}
	found, err := r.client.Statistics.Compare(ctx, request)
	if err != nil {
		return nil, err
	}
	return value{"mean_difference": found.GetComparisons()[0].GetMeanDifference(), "n": found.GetComparisons()[0].GetN()}, nil
}

func (r *runner) spec(step step) (*evalv1.RunSpec, error) {
	var encoders []string
	if err := json.Unmarshal(step.Encoders, &encoders); err != nil {
		return nil, err
	}
	spec, err := isomer.RunSpec(step.Suite, encoders...)
	if err == nil {
		spec.Transformations, spec.GeneratorId = step.Transformations, step.Generator
		if step.Limit > 0 {
			spec.Limit = isomer.Ptr(uint32(step.Limit))
		}
	}
	return spec, err
}

func (r *runner) run(ctx context.Context, step step) (value, error) {
	spec, err := r.spec(step)
	if err != nil {
		return nil, err
	}
	made, err := r.client.Runs.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	events, reports := 0, 0
	ended, err := r.client.Runs.Wait(ctx, made.GetId(), func(*evalv1.WatchRunResponse) { events++ })
	if err != nil {
		return nil, err
	}
	for _, format := range step.Formats {
		report, err := r.client.Runs.Report(ctx, made.GetId(), evalv1.ReportFormat(enum(evalv1.ReportFormat_value, "REPORT_FORMAT_", format)))
		if err != nil {
			return nil, err
		}
		if len(report.Content) > 0 && report.MediaType != "" {
			reports++
		}
	}
	return value{"state": strings.TrimPrefix(ended.GetState().String(), "RUN_STATE_"), "events": events, "reports": reports}, nil
}

func (r *runner) createRun(ctx context.Context, step step) (value, error) {
	spec, err := r.spec(step)
	if err != nil {
		return nil, err
	}
	made, err := r.client.Runs.Create(ctx, spec)
	return value{"id": made.GetId()}, err
}

func (r *runner) watchRun(ctx context.Context, step step) (value, error) {
	sequences, err := collect(r.client.Runs.Watch(ctx, step.ID, 0), (*evalv1.WatchRunResponse).GetSequence)
	return value{"sequences": sequences}, err
}

func provider(step step) (*gatewayv1.Provider, error) {
	made := &gatewayv1.Provider{Id: step.ID, Kind: gatewayv1.ProviderKind_PROVIDER_KIND_ISOMER, Address: step.Address}
	return made, json.Unmarshal(step.Encoders, &made.Encoders)
}

func (r *runner) createProvider(ctx context.Context, step step) (value, error) {
	record, err := provider(step)
	if err != nil {
		return nil, err
	}
	made, err := r.client.Providers.Create(ctx, record)
	return value{"id": made.GetId()}, err
}

func (r *runner) providers(ctx context.Context, step step) (value, error) {
	record, err := provider(step)
	if err != nil {
		return nil, err
	}
	providers := r.client.Providers
	made, err := providers.Create(ctx, record)
	if err != nil {
		return nil, err
	}
	read, err := providers.Get(ctx, step.ID)
	if err != nil {
		return nil, err
	}
	listed, err := collect(providers.List(ctx), (*gatewayv1.Provider).GetId)
	if err != nil {
		return nil, err
	}
	changed, err := providers.Update(ctx, &gatewayv1.Provider{Id: step.ID, PricePerMillionTokens: 2.5}, "price_per_million_tokens")
	if err != nil {
		return nil, err
	}
	checked, err := providers.Check(ctx, step.ID)
	if err != nil {
		return nil, err
	}
	if err := providers.Delete(ctx, step.ID); err != nil {
		return nil, err
	}
	deleted := "still there"
	var gone *isomer.Error
	if _, err := providers.Get(ctx, step.ID); errors.As(err, &gone) {
		deleted = code.Code(gone.Code).String()
	}
	return value{
		"created": made.GetId() == step.ID && read.GetId() == step.ID, "listed": slices.Contains(listed, step.ID),
		"price": changed.GetPricePerMillionTokens(), "usable": checked.GetUsable(), "deleted": deleted,
	}, nil
}

func (r *runner) listKeys(ctx context.Context, _ step) (value, error) {
	ids, err := collect(r.client.Keys.List(ctx), (*gatewayv1.ApiKey).GetId)
	return value{"ids": ids}, err
}

func newKey(step step) *gatewayv1.ApiKey {
	key := &gatewayv1.ApiKey{Name: step.Name}
	for _, scope := range step.Scopes {
		key.Scopes = append(key.Scopes, gatewayv1.AccessScope(enum(gatewayv1.AccessScope_value, "ACCESS_SCOPE_", scope)))
	}
	return key
}

func (r *runner) createKey(ctx context.Context, step step) (value, error) {
	made, err := r.client.Keys.Create(ctx, newKey(step))
	if err != nil {
		return nil, err
	}
	return value{"id": made.ID}, nil
}

func (r *runner) keys(ctx context.Context, step step) (value, error) {
	keys := r.client.Keys
	made, err := keys.Create(ctx, newKey(step))
	if err != nil {
		return nil, err
	}
	listed, err := collect(keys.List(ctx), (*gatewayv1.ApiKey).GetId)
	if err != nil {
		return nil, err
	}
	other, err := isomer.Connect(r.address, isomer.WithKey(made.Secret()))
	if err != nil {
		return nil, err
	}
	defer other.Close()
	used, err := other.Encode(ctx, step.Texts, isomer.EncodeOptions{Encoder: step.Encoder})
	if err != nil {
		return nil, err
	}
	if _, err := keys.Revoke(ctx, made.ID); err != nil {
		return nil, err
	}
	after := "still in force"
	var refused *isomer.Error
	if _, err := other.Encode(ctx, step.Texts, isomer.EncodeOptions{Encoder: step.Encoder}); errors.As(err, &refused) {
		after = refused.Reason
	}
	audited := []string{}
	for event, err := range keys.Audit(ctx, 0) {
		if err != nil {
			return nil, err
		}
		if strings.Contains(event.GetTarget(), made.ID) {
			audited = append(audited, event.GetAct())
		}
	}
	return value{"rows": digests(used.Matrix), "listed": slices.Contains(listed, made.ID), "after": after, "audited": audited}, nil
}

func (r *runner) work(op string) func(context.Context, step) (value, error) {
	return map[string]func(context.Context, step) (value, error){
		"encode": r.encode, "encode_stream": r.encodeStream, "encode_tokens": r.encodeTokens, "encode_outputs": r.encodeOutputs, "threads": r.threads, "encoders": r.encoders,
		"encoder": r.encoder, "count_tokens": r.countTokens, "tokenize": r.tokenize, "rerank": r.rerank, "transform": r.transform,
		"transform_stream": r.transformStream, "encode_augmented": r.encodeAugmented, "score_pairs": r.scorePairs, "score_dataset": r.scoreDataset,
		"adjust_p_values": r.adjustPValues, "compare": r.compare, "run": r.run, "create_run": r.createRun, "watch_run": r.watchRun,
		"create_provider": r.createProvider, "providers": r.providers, "list_keys": r.listKeys, "create_key": r.createKey, "keys": r.keys,
	}[op]
}

func described(failed *isomer.Error, shown string) value {
	told := value{
		"code": code.Code(failed.Code).String(), "reason": failed.Reason, "field": failed.Field, "hint": failed.Hint, "message": failed.Message,
		"shown": shown, "metadata": failed.Metadata, "too_old": errors.Is(failed, isomer.ErrClientTooOld),
	}
	if failed.RetryAfter != nil {
		told["retry_after_s"] = failed.RetryAfter.Seconds()
	}
	return told
}

func options(told connect, asked *int) []isomer.Option {
	made := []isomer.Option{isomer.WithDialOptions(isomerotel.DialOptions()...)}
	for name, text := range told.Metadata {
		made = append(made, isomer.WithMetadata(name, text))
	}
	if told.Key != "" {
		made = append(made, isomer.WithKey(told.Key))
	}
	if len(told.Tokens) > 0 {
		made = append(made, isomer.WithTokenSource(isomer.TokenFunc(func(context.Context) (isomer.Token, error) {
			*asked++
			return isomer.Token{Value: told.Tokens[min(*asked, len(told.Tokens))-1]}, nil
		})))
	}
	if told.CAFile != "" || told.CertificateFile != "" {
		made = append(made, isomer.WithTLS(isomer.TLS{CAFile: told.CAFile, CertificateFile: told.CertificateFile, KeyFile: told.KeyFile}))
	}
	if told.InFlight > 0 {
		made = append(made, isomer.WithInFlight(told.InFlight))
	}
	if told.BatchItems > 0 || told.BatchBytes > 0 {
		items, bytes := told.BatchItems, told.BatchBytes
		if items == 0 {
			items = 256
		}
		if bytes == 0 {
			bytes = 1 << 20
		}
		made = append(made, isomer.WithBatches(items, bytes))
	}
	if told.TimeoutMS > 0 {
		made = append(made, isomer.WithTimeout(time.Duration(told.TimeoutMS)*time.Millisecond))
	}
	return made
}

func runCase(told conformanceCase) value {
	for _, step := range told.Steps {
		if step.Op == "fork" {
			return value{"skipped": "a Go program does not fork: its runtime's threads would not be in the child"}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), mostOfACase)
	defer cancel()
	if told.Connect.Traceparent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": told.Connect.Traceparent})
	}
	asked := 0
	runner := &runner{address: told.Connect.Address, options: options(told.Connect, &asked), collections: map[string]*isomer.Collection{}}
	results := []value{}
	for _, step := range told.Steps {
		started := time.Now()
		result := value{}
		found, err := runner.step(ctx, step)
		var failed *isomer.Error
		switch {
		case err == nil:
			result["ok"] = found
		case errors.As(err, &failed):
			result["error"] = described(failed, err.Error())
		default:
			return value{"failed": fmt.Sprintf("%T: %v", err, err)}
		}
		result["elapsed_ms"] = time.Since(started).Milliseconds()
		if len(told.Connect.Tokens) > 0 {
			result["tokens_asked"] = asked
		}
		results = append(results, result)
	}
	if runner.client != nil {
		if err := runner.client.Close(); err != nil {
			return value{"failed": "closing: " + err.Error()}
		}
	}
	return value{"steps": results}
}

func (r *runner) step(ctx context.Context, step step) (value, error) {
	if r.client == nil {
		client, err := isomer.Connect(r.address, r.options...)
		if err != nil {
			return nil, err
		}
		r.client = client
	}
	if step.TimeoutMS > 0 {
		with, cancel := context.WithTimeout(ctx, time.Duration(step.TimeoutMS)*time.Millisecond)
		defer cancel()
		ctx = with
	}
	if step.CancelAfterMS > 0 {
		with, cancel := context.WithCancel(ctx)
		defer time.AfterFunc(time.Duration(step.CancelAfterMS)*time.Millisecond, cancel).Stop()
		defer cancel()
		ctx = with
	}
	work := r.work(step.Op)
	if work == nil {
		return nil, fmt.Errorf("there is no step %s", step.Op)
	}
	return work(ctx, step)
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: conformance CASES RESULTS")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var told struct {
		Cases []conformanceCase `json:"cases"`
	}
	if err := json.Unmarshal(text, &told); err != nil {
		log.Fatal(err)
	}
	otel.SetTracerProvider(sdktrace.NewTracerProvider())
	otel.SetTextMapPropagator(propagation.TraceContext{})
	results := map[string]value{}
	for _, one := range told.Cases {
		results[one.ID] = guarded(one)
	}
	made, err := json.Marshal(value{"client": value{"name": "isomer-client-go", "version": isomer.Version}, "results": results})
	if err == nil {
		err = os.WriteFile(os.Args[2], made, 0o600)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// guarded keeps a defect of the client's from ending the others.
func guarded(told conformanceCase) (result value) {
	defer func() {
		if defect := recover(); defect != nil {
			result = value{"failed": fmt.Sprint("panic: ", defect)}
		}
	}()
	return runCase(told)
}
