package isomer

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	commonv1 "isomer.dev/go/common/v1"
	encoderv1 "isomer.dev/go/encoder/v1"
)

// EncodeOptions is everything of an encode call but its texts. At most one of Prompt, PromptName and
// Role may be given; without one the encoder's default applies.
type EncodeOptions struct {
	// Encoder is the id of the encoder.
	Encoder string
	// Prompt is text put before each one; a pointer to an empty text for none.
	Prompt *string
	// PromptName is one of the encoder's prompts, by its name.
	PromptName string
	// Role is what the texts are, e.g. `query`, `document`, `Retrieval-query`: the encoder's own
	// prompt for it, where it has one.
	Role string
	// Dimensions is the columns to keep (Matryoshka); 0: all.
	Dimensions int
	// Normalise says whether to scale to unit length; nil: as the encoder does.
	Normalise *bool
	// DType of the elements; F32 where it is not given.
	DType DType
	// Truncation is what happens to too long a text; the tail is cut where it is not given.
	Truncation encoderv1.Truncation
	// Priority is interactive where it is not given; batch in EncodeStream.
	Priority encoderv1.Priority
	// Collection is where the vectors are kept: those of another space are a *SpaceMismatchError.
	Collection *Collection
	// Partial lets texts that fail leave rows of zeros; without it they are a *TextsFailedError.
	Partial bool
}

// Ptr points to a value, for optional fields: isomer.Ptr(false).
func Ptr[T any](value T) *T { return &value }

// prompt of a request: by the encoder's name for it, or literally; neither: the encoder's default.
type prompt struct {
	name    string
	literal *string
}

// parts of a role, and other names of the part `document`, as the server has them.
var roleParts = map[string][]string{
	"query": nil, "document": {"passage", "corpus"}, "passage": {"document", "corpus"}, "corpus": {"document", "passage"},
}

func (o *EncodeOptions) prompt(encoder *encoderv1.Encoder) (prompt, error) {
	given := 0
	for _, one := range []bool{o.Prompt != nil, o.PromptName != "", o.Role != ""} {
		if one {
			given++
		}
	}
	if given > 1 {
		return prompt{}, invalid("prompt", "give one of them", "Prompt, PromptName and Role are given together")
	}
	name := o.PromptName
	if o.Role != "" {
		name = promptOfRole(encoder, o.Role)
	}
	return prompt{name, o.Prompt}, nil
}

// promptOfRole is the encoder's own prompt for a role; empty where it has none. The whole role goes
// before its task, and the task before its part; letter case, hyphens and underscores do not matter.
// These are the rules of isomer.eval.v1.EncoderPrompt.
func promptOfRole(encoder *encoderv1.Encoder, role string) string {
	names := map[string]string{}
	for _, name := range encoder.GetPromptNames() {
		names[plainRole(name)] = name
	}
	for name := range encoder.GetPrompts() {
		names[plainRole(name)] = name
	}
	wanted := []string{role}
	dash := strings.LastIndex(role, "-")
	part := role[dash+1:]
	if _, known := roleParts[strings.ToLower(part)]; known && dash > 0 {
		wanted = []string{role, role[:dash], part}
	}
	for _, one := range wanted {
		dash := strings.LastIndex(one, "-")
		task, part := one[:dash+1], one[dash+1:]
		for _, part := range append([]string{part}, roleParts[strings.ToLower(part)]...) {
			if name, found := names[plainRole(task+part)]; found {
				return name
			}
		}
	}
	return ""
}

func plainRole(role string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(role))
}

func (o *EncodeOptions) dtype() DType {
	if o.DType == commonv1.Dtype_DTYPE_UNSPECIFIED {
		return F32
	}
	return o.DType
}

func (o *EncodeOptions) check() error {
	if o.Encoder == "" {
		return invalid("encoder", "name one: Encoders lists them", "Encoder is empty")
	}
	if o.Dimensions < 0 {
		return invalid("dimensions", "give 1 or more, or 0 for all", "Dimensions is %d", o.Dimensions)
	}
	if rowBytes(1, o.dtype()) == 0 {
		return invalid("dtype", "one of F32, F16, Int8, UBinary", "there is no DType %d", o.DType)
	}
	return nil
}

// wanted is the results of a call; neither: a vector for each text.
type wanted struct {
	// tokens: a vector for each token, alone.
	tokens bool
	// outputs: several results of one pass.
	outputs    []encoderv1.Output
	mostActive int
}

// request of some inputs.
func (o *EncodeOptions) request(asked prompt, inputs []*encoderv1.Input, wanted wanted) *encoderv1.EncodeRequest {
	made := &encoderv1.EncodeRequest{
		EncoderId: o.Encoder, Inputs: inputs, Truncation: o.Truncation, Priority: o.Priority, Normalise: o.Normalise, OutputDtype: o.dtype(),
	}
	if o.Dimensions > 0 {
		made.Dimensions = Ptr(uint32(o.Dimensions))
	}
	if asked.name != "" {
		made.Prompt = &encoderv1.EncodeRequest_PromptName{PromptName: asked.name}
	} else if asked.literal != nil {
		made.Prompt = &encoderv1.EncodeRequest_LiteralPrompt{LiteralPrompt: *asked.literal}
	}
	if wanted.tokens {
		made.Output = encoderv1.Output_OUTPUT_TOKEN_VECTORS
	}
	made.Outputs = wanted.outputs
	if wanted.mostActive > 0 {
		made.MaxActiveDimensions = Ptr(uint32(wanted.mostActive))
	}
	return made
}

// question is what the space of the vectors depends on, beside the server.
func (o *EncodeOptions) question(asked prompt, tokens bool) string {
	literal, normalise := "", ""
	if asked.literal != nil {
		literal = fmt.Sprintf("%q", *asked.literal)
	}
	if o.Normalise != nil {
		normalise = fmt.Sprint(*o.Normalise)
	}
	return fmt.Sprintf("%q %q %s %d %s %d %t", o.Encoder, asked.name, literal, o.Dimensions, normalise, o.dtype(), tokens)
}

// batch is the items of a request, and the place of the first one in the caller's list.
type batch[T any] struct {
	start int
	items []T
}

// batches divides items, in their order, into requests. An item that is larger than mostBytes goes
// alone.
func batches[T any](items iter.Seq[T], mostItems, mostBytes int, size func(T) int) iter.Seq[batch[T]] {
	return func(yield func(batch[T]) bool) {
		start, bytes := 0, 0
		var held []T
		give := func() bool {
			made := batch[T]{start, held}
			start, bytes, held = start+len(held), 0, nil
			return yield(made)
		}
		for item := range items {
			added := size(item)
			if len(held) > 0 && bytes+added > mostBytes && !give() {
				return
			}
			if held == nil {
				held = make([]T, 0, min(mostItems, 256))
			}
			held = append(held, item)
			bytes += added
			if len(held) >= mostItems && !give() {
				return
			}
		}
		if len(held) > 0 {
			give()
		}
	}
}

func sizeOfText(text string) int { return len(text) }

func sizeOfIDs(ids []uint32) int { return 4 * len(ids) }

func inputOfText(text string, place int) (*encoderv1.Input, error) {
	if err := checkText(text, "inputs", place); err != nil {
		return nil, err
	}
	return &encoderv1.Input{Input: &encoderv1.Input_Text{Text: text}}, nil
}

func inputOfIDs(ids []uint32, _ int) (*encoderv1.Input, error) {
	return &encoderv1.Input{Input: &encoderv1.Input_TokenIds{TokenIds: &encoderv1.TokenIds{Ids: ids}}}, nil
}

func checkText(text, list string, place int) error {
	if utf8.ValidString(text) {
		return nil
	}
	field := fmt.Sprintf("%s[%d]", list, place)
	return invalid(field, "give UTF-8", "%s is not valid UTF-8", field)
}

// checker compares the answers of one call with its request, and with each other.
type checker struct {
	options  *EncodeOptions
	question string
	known    *knownSpaces
	first    *VectorSpace
}

func (c *checker) space(message *commonv1.VectorSpace) (VectorSpace, error) {
	space := spaceOf(message)
	if c.first == nil {
		// Compares with the caller's expectation first, then with the space of earlier answers.
		if c.options.Collection != nil {
			if err := c.options.Collection.Check(space); err != nil {
				return space, err
			}
		}
		// Ranges of int8 may come from the texts of each request: the spaces of two calls then differ.
		if c.known != nil && c.options.dtype() != Int8 {
			if err := c.known.check(c.options.Encoder, c.question, space); err != nil {
				return space, err
			}
		}
		c.first = &space
	}
	if c.first.Digest != space.Digest {
		return space, spaceMismatch(*c.first, space, "the texts before them in the same call")
	}
	return space, nil
}

// embeddings is one answer's vectors, a row for each of count texts.
func (c *checker) embeddings(answer *encoderv1.EncodeResponse, start, count int) (*Embeddings, error) {
	matrix, err := c.fitting(answer.GetEmbeddings())
	if err != nil {
		return nil, err
	}
	if matrix.Rows != count || len(answer.GetTruncated()) != 0 && len(answer.GetTruncated()) != count {
		return nil, badAnswer("ask again; if it stays so, the server is at fault",
			"%d vectors and %d marks of truncation were answered to %d texts", matrix.Rows, len(answer.GetTruncated()), count)
	}
	space, err := c.space(answer.GetVectorSpace())
	if err != nil {
		return nil, err
	}
	made := &Embeddings{
		Matrix: matrix, Space: space, TokenCounts: answer.GetTokenCounts(), Truncated: answer.GetTruncated(), Errors: itemErrors(answer.GetErrors(), start),
	}
	made.Usage.add(answer.GetUsage())
	return made, nil
}

// tokens is one answer's vectors of tokens, a matrix for each of count texts.
func (c *checker) tokens(answer *encoderv1.EncodeResponse, start, count int) ([]Matrix, VectorSpace, error) {
	return c.tokensOf(answer, answer.GetEmbeddings(), answer.GetVectorSpace(), start, count)
}

func (c *checker) tokensOf(
	answer *encoderv1.EncodeResponse, message *commonv1.Matrix, of *commonv1.VectorSpace, start, count int,
) ([]Matrix, VectorSpace, error) {
	matrix, err := c.fitting(message)
	if err != nil {
		return nil, VectorSpace{}, err
	}
	if err := textsFailed(itemErrors(answer.GetErrors(), start), nil); err != nil {
		return nil, VectorSpace{}, err
	}
	var made []Matrix
	row := 0
	for _, rows := range answer.GetRowCounts() {
		if int(rows) > matrix.Rows-row {
			break
		}
		made = append(made, matrix.Slice(row, row+int(rows)))
		row += int(rows)
	}
	if len(made) != count || len(answer.GetRowCounts()) != count || row != matrix.Rows {
		return nil, VectorSpace{}, badAnswer("ask again", "%d token vectors of %d texts were answered to %d", matrix.Rows, len(answer.GetRowCounts()), count)
	}
	space, err := c.space(of)
	return made, space, err
}

func (c *checker) fitting(message *commonv1.Matrix) (Matrix, error) {
	matrix, err := viewOf(message)
	if err == nil && (matrix.DType != c.options.dtype() || c.options.Dimensions != 0 && matrix.Cols != c.options.Dimensions) {
		err = badAnswer("ask again; if it stays so, the server is at fault",
			"%d columns of element type %s were answered to %d of %s", matrix.Cols, matrix.DType, c.options.Dimensions, c.options.dtype())
	}
	return matrix, err
}

// joiner puts the answers of several requests together, in order: one slice, filled as they come.
type joiner struct {
	count  int
	joined *Embeddings
	told   bool
}

func (j *joiner) add(one *Embeddings) error {
	if j.joined == nil {
		if one.Rows == j.count {
			j.joined = one
			return nil
		}
		j.told = true
		whole := Matrix{Cols: one.Cols, DType: one.DType, data: make([]byte, 0, j.count*rowBytes(one.Cols, one.DType))}
		j.joined = &Embeddings{Matrix: whole, Space: one.Space, TokenCounts: make([]uint32, 0, j.count)}
	}
	whole := j.joined
	if one.Cols != whole.Cols {
		return badAnswer("ask again", "two answers of one call have vectors of %d and %d columns", whole.Cols, one.Cols)
	}
	whole.data = append(whole.data, one.data...)
	whole.Rows += one.Rows
	whole.TokenCounts = append(whole.TokenCounts, one.TokenCounts...)
	j.told = j.told && one.Truncated != nil
	whole.Truncated = append(whole.Truncated, one.Truncated...)
	if !j.told {
		whole.Truncated = nil
	}
	whole.Usage.sum(one.Usage)
	whole.Errors = append(whole.Errors, one.Errors...)
	return nil
}

// emptyEmbeddings is what no texts give: no rows, as wide as others would be.
func emptyEmbeddings(encoder *encoderv1.Encoder, options *EncodeOptions) *Embeddings {
	width := options.Dimensions
	if width == 0 {
		width = int(encoder.GetDimensions())
	}
	return &Embeddings{Matrix: Matrix{Cols: width, DType: options.dtype()}, Space: spaceOf(encoder.GetVectorSpace())}
}

func textsOf(texts []string) iter.Seq[string] { return slices.Values(texts) }
