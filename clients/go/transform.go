package isomer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	encoderv1 "isomer.dev/go/encoder/v1"
	transformv1 "isomer.dev/go/transform/v1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Item is a text to transform, with an id and a language if it has them.
type Item = transformv1.TextItem

// Items are texts without ids.
func Items(texts ...string) []*Item {
	made := make([]*Item, len(texts))
	for place, text := range texts {
		made[place] = &Item{Text: text}
	}
	return made
}

// NamedTransformation is a transformation of the catalogue by its name, with its parameters:
// NamedTransformation("translation", map[string]any{"target_language": "de"}).
func NamedTransformation(name string, parameters map[string]any) (*transformv1.Transformation, error) {
	made := &transformv1.Transformation{}
	message := made.ProtoReflect()
	fields := message.Descriptor().Fields()
	kind := fields.ByName(protoreflect.Name(name))
	if kind == nil {
		return nil, invalid("spec.transformation", "one of "+names(fields), "there is no transformation `%s`", name)
	}
	inner := message.Mutable(kind).Message()
	for parameter, value := range parameters {
		field := "spec.transformation." + name + "." + parameter
		known := inner.Descriptor().Fields()
		found := known.ByName(protoreflect.Name(parameter))
		if found == nil {
			return nil, invalid(field, "it has "+names(known), "`%s` has no parameter `%s`", name, parameter)
		}
		if err := setField(inner, found, value); err != nil {
			return nil, invalid(field, "give a value of its type", "%s cannot be %v: %v", field, value, err)
		}
	}
	return made, nil
}

func names(fields protoreflect.FieldDescriptors) string {
	var made []string
	for place := range fields.Len() {
		made = append(made, string(fields.Get(place).Name()))
	}
	if len(made) == 0 {
		return "none"
	}
	return strings.Join(made, ", ")
}

func setField(message protoreflect.Message, field protoreflect.FieldDescriptor, value any) error {
	if !field.IsList() {
		one, err := fieldValue(field, value)
		if err == nil {
			message.Set(field, one)
		}
		return err
	}
	list := message.Mutable(field).List()
	values, ok := value.([]string)
	if !ok {
		return fmt.Errorf("it is a list of texts")
	}
	for _, value := range values {
		one, err := fieldValue(field, value)
		if err != nil {
			return err
		}
		list.Append(one)
	}
	return nil
}

func fieldValue(field protoreflect.FieldDescriptor, value any) (protoreflect.Value, error) {
	switch given := value.(type) {
	case string:
		if field.Kind() == protoreflect.StringKind {
			return protoreflect.ValueOfString(given), nil
		}
	case bool:
		if field.Kind() == protoreflect.BoolKind {
			return protoreflect.ValueOfBool(given), nil
		}
	case int:
		switch {
		case field.Kind() == protoreflect.Uint32Kind && given >= 0 && given < 1<<32:
			return protoreflect.ValueOfUint32(uint32(given)), nil
		case field.Kind() == protoreflect.Uint64Kind && given >= 0:
			return protoreflect.ValueOfUint64(uint64(given)), nil
		case field.Kind() == protoreflect.DoubleKind:
			return protoreflect.ValueOfFloat64(float64(given)), nil
		}
	case float64:
		if field.Kind() == protoreflect.DoubleKind {
			return protoreflect.ValueOfFloat64(given), nil
		}
	}
	if number, ok := value.(interface {
		Number() protoreflect.EnumNumber
	}); ok && field.Kind() == protoreflect.EnumKind {
		return protoreflect.ValueOfEnum(number.Number()), nil
	}
	return protoreflect.Value{}, fmt.Errorf("it is of kind %s", field.Kind())
}

// TransformOptions is everything of a transformation but its texts.
type TransformOptions struct {
	// Transformation is a name of the catalogue, e.g. `paraphrase`, with its Parameters.
	Transformation string
	Parameters     map[string]any
	// Generator is the language model; empty: the server's.
	Generator string
	// Spec has everything else, as the protos have it; the fields above go before.
	Spec *transformv1.TransformSpec
}

func (o *TransformOptions) spec() (*transformv1.TransformSpec, error) {
	spec := &transformv1.TransformSpec{}
	if o.Spec != nil {
		spec = proto.Clone(o.Spec).(*transformv1.TransformSpec)
	}
	if o.Transformation != "" {
		kind, err := NamedTransformation(o.Transformation, o.Parameters)
		if err != nil {
			return nil, err
		}
		spec.Transformation = kind
	}
	if o.Generator != "" {
		spec.GeneratorId = o.Generator
	}
	return spec, nil
}

// Transformations is the catalogue, with axis and prompts of each.
func (c *Client) Transformations(ctx context.Context) iter.Seq2[*transformv1.TransformationInfo, error] {
	return pages(func(token string) ([]*transformv1.TransformationInfo, string, error) {
		answer, err := c.transforming.ListTransformations(ctx, &transformv1.ListTransformationsRequest{PageToken: token})
		return answer.GetTransformations(), answer.GetNextPageToken(), err
	})
}

func sizeOfItem(item *Item) int { return len(item.GetText()) }

func (c *Client) items(items []*Item) iter.Seq[batch[*Item]] {
	settings := c.transport.settings
	return batches(values(items), settings.batchItems, settings.batchBytes, sizeOfItem)
}

func checkItems(batch batch[*Item]) error {
	for place, item := range batch.items {
		if err := checkText(item.GetText(), "items", batch.start+place); err != nil {
			return err
		}
	}
	return nil
}

// Transform transforms any number of texts, in their order.
func (c *Client) Transform(ctx context.Context, items []*Item, options TransformOptions) (*Transformed, error) {
	spec, err := options.spec()
	if err != nil {
		return nil, err
	}
	work := func(ctx context.Context, batch batch[*Item]) (part[*transformv1.TransformResponse], error) {
		made := part[*transformv1.TransformResponse]{start: batch.start, count: len(batch.items)}
		if err := checkItems(batch); err != nil {
			return made, err
		}
		var err error
		made.answer, err = c.transforming.Transform(ctx, &transformv1.TransformRequest{Spec: spec, Items: batch.items})
		return made, moved(err, batch.start)
	}
	made := &Transformed{}
	for one, err := range ordered(ctx, c.items(items), c.transport.settings.inFlight, work) {
		if err != nil {
			return nil, err
		}
		for _, result := range one.answer.GetResults() {
			result.Index += uint32(one.start)
			made.Results = append(made.Results, result)
		}
		made.Summaries = append(made.Summaries, one.answer.GetSummary())
		made.Usage.add(one.answer.GetUsage())
	}
	return made, nil
}

// TransformStream gives each result as it comes, in any order: Index says which text it is. It is
// made once, without retries. Leaving the loop cancels it.
func (c *Client) TransformStream(ctx context.Context, items []*Item, options TransformOptions) iter.Seq2[*transformv1.TransformResult, error] {
	return func(yield func(*transformv1.TransformResult, error) bool) {
		spec, err := options.spec()
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for batch := range c.items(items) {
			if err := checkItems(batch); err != nil {
				yield(nil, err)
				return
			}
			stream, err := c.transforming.TransformStream(ctx, &transformv1.TransformStreamRequest{Spec: spec, Items: batch.items})
			for err == nil {
				var answer *transformv1.TransformStreamResponse
				if answer, err = stream.Recv(); err == nil && answer.GetResult() != nil {
					answer.GetResult().Index += uint32(batch.start)
					if !yield(answer.GetResult(), nil) {
						return
					}
				}
			}
			if !errors.Is(err, io.EOF) {
				yield(nil, moved(err, batch.start))
				return
			}
		}
	}
}

// Estimate says what Transform would ask the generator for. It costs nothing.
func (c *Client) Estimate(ctx context.Context, items []*Item, options TransformOptions) (*transformv1.GenerationEstimate, error) {
	spec, err := options.spec()
	if err != nil {
		return nil, err
	}
	answer, err := c.transforming.Estimate(ctx, &transformv1.EstimateRequest{Spec: spec, Items: items})
	return answer.GetEstimate(), err
}

// Inspect has the error checks and measures of pairs of an original and a transformed text.
func (c *Client) Inspect(ctx context.Context, request *transformv1.InspectRequest) (*transformv1.InspectResponse, error) {
	return c.transforming.Inspect(ctx, request)
}

// Judge has pairs rated by a language model.
func (c *Client) Judge(ctx context.Context, request *transformv1.JudgeRequest) (*transformv1.JudgeResponse, error) {
	return c.transforming.Judge(ctx, request)
}

// Source of variants of a text (GASE): a transformation, and the generator that makes it where it
// needs one.
type Source struct {
	Transformation string
	Parameters     map[string]any
	Generator      string
}

// AugmentOptions says how vectors are made of texts and their variants (GASE).
type AugmentOptions struct {
	// Encoder is the id of the encoder.
	Encoder string
	// Sources of variants, 8 at most.
	Sources []Source
	// Pooling is the mean where it is not given; OriginalWeight is for AUGMENTATION_POOLING_WEIGHTED.
	Pooling        transformv1.AugmentationPooling
	OriginalWeight *float64
	// NormaliseBefore and NormaliseAfter the pooling; nil: as the server does.
	NormaliseBefore, NormaliseAfter *bool
	// PromptName or Prompt of the encoder.
	PromptName string
	Prompt     *string
	Dimensions int
	// Budget for generation; what has come by then is pooled. 0: none.
	Budget time.Duration
	// AllVariants makes a missing variant fail the call.
	AllVariants bool
	// Spec has everything else, as the protos have it, such as the mode; the fields above go before.
	Spec *transformv1.AugmentationSpec
	// Evidence of the plain search of each text, for AUGMENTATION_MODE_CASCADE; without it all vectors
	// are plain.
	Evidence []*transformv1.SearchEvidence
	// Collection and Partial are those of EncodeOptions.
	Collection *Collection
	Partial    bool
}

func (o *AugmentOptions) spec() (*transformv1.AugmentationSpec, error) {
	spec := &transformv1.AugmentationSpec{}
	if o.Spec != nil {
		spec = proto.Clone(o.Spec).(*transformv1.AugmentationSpec)
	}
	for _, source := range o.Sources {
		kind, err := NamedTransformation(source.Transformation, source.Parameters)
		if err != nil {
			return nil, err
		}
		spec.Sources = append(spec.Sources, &transformv1.VariantSource{GeneratorId: source.Generator, Transformation: kind})
	}
	if o.Budget > 0 {
		spec.GenerationBudget = durationpb.New(o.Budget)
	}
	if o.AllVariants {
		spec.PartialFailure = transformv1.PartialFailurePolicy_PARTIAL_FAILURE_POLICY_FAIL
	}
	return spec, nil
}

// Augment has variants of texts, without vectors.
func (c *Client) Augment(ctx context.Context, items []*Item, options AugmentOptions) ([]*transformv1.Variants, error) {
	spec, err := options.spec()
	if err != nil {
		return nil, err
	}
	answer, err := c.augmentation.Augment(ctx, &transformv1.AugmentRequest{Spec: spec, Items: items})
	return answer.GetItems(), err
}

// EncodeAugmented has vectors pooled of texts and their variants (GASE), in the order of the texts.
func (c *Client) EncodeAugmented(ctx context.Context, items []*Item, options AugmentOptions) (*AugmentedEmbeddings, error) {
	if len(items) == 0 {
		return nil, invalid("items", "give at least one text", "items is empty")
	}
	spec, err := options.spec()
	if err != nil {
		return nil, err
	}
	if options.Prompt != nil && options.PromptName != "" {
		return nil, invalid("prompt", "give one of them", "Prompt and PromptName are given together")
	}
	if len(options.Evidence) > 0 && len(options.Evidence) != len(items) {
		return nil, invalid("evidence", "give one entry per text, empty where nothing was found", "%d entries for %d texts", len(options.Evidence), len(items))
	}
	base := &transformv1.EncodeAugmentedRequest{
		Spec: spec, EncoderId: options.Encoder, Pooling: options.Pooling, OriginalWeight: options.OriginalWeight,
		NormaliseBefore: options.NormaliseBefore, NormaliseAfter: options.NormaliseAfter, PromptName: options.PromptName, LiteralPrompt: options.Prompt,
	}
	if options.Dimensions > 0 {
		base.Dimensions = Ptr(uint32(options.Dimensions))
	}
	// Everything but the texts: what the space depends on.
	question, err := proto.MarshalOptions{Deterministic: true}.Marshal(base)
	if err != nil {
		return nil, invalid("spec", "give UTF-8", "the request cannot be sent: %v", err)
	}
	checker := &checker{
		options: &EncodeOptions{Encoder: options.Encoder, Collection: options.Collection}, question: "augmented " + string(question), known: c.spaces,
	}
	work := func(ctx context.Context, batch batch[*Item]) (part[*transformv1.EncodeAugmentedResponse], error) {
		made := part[*transformv1.EncodeAugmentedResponse]{start: batch.start, count: len(batch.items)}
		if err := checkItems(batch); err != nil {
			return made, err
		}
		request := proto.Clone(base).(*transformv1.EncodeAugmentedRequest)
		request.Items = batch.items
		if len(options.Evidence) > 0 {
			request.Evidence = options.Evidence[batch.start : batch.start+len(batch.items)]
		}
		var err error
		made.answer, err = c.augmentation.EncodeAugmented(ctx, request)
		return made, moved(err, batch.start)
	}
	joiner := joiner{count: len(items)}
	var used []*transformv1.Variants
	for one, err := range ordered(ctx, c.items(items), c.transport.settings.inFlight, work) {
		if err != nil {
			return nil, err
		}
		answer := one.answer
		same := &encoderv1.EncodeResponse{
			Embeddings: answer.GetEmbeddings(), Truncated: answer.GetTruncated(), Errors: answer.GetErrors(), VectorSpace: answer.GetVectorSpace(),
			Usage: answer.GetUsage(),
		}
		vectors, err := checker.embeddings(same, one.start, one.count)
		if err == nil {
			err = joiner.add(vectors)
		}
		if err != nil {
			return nil, err
		}
		for _, variants := range answer.GetUsed() {
			variants.Index += uint32(one.start)
			used = append(used, variants)
		}
	}
	if !options.Partial {
		if err := textsFailed(joiner.joined.Errors, joiner.joined); err != nil {
			return nil, err
		}
	}
	return &AugmentedEmbeddings{Embeddings: *joiner.joined, Used: used}, nil
}

func values[T any](items []T) iter.Seq[T] { return slices.Values(items) }
