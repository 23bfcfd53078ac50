package isomer

import (
	"context"
	"math"

	encoderv1 "isomer.dev/go/encoder/v1"
)

// Output is a result of one pass.
type Output = encoderv1.Output

// The results of one pass.
const (
	TextVector   = encoderv1.Output_OUTPUT_TEXT_VECTOR
	Sparse       = encoderv1.Output_OUTPUT_SPARSE
	TokenVectors = encoderv1.Output_OUTPUT_TOKEN_VECTORS
)

// OutputsOptions is everything of an EncodeOutputs call but its texts. Dimensions, Normalise, DType
// and Collection apply to TextVector; Partial is not offered.
type OutputsOptions struct {
	EncodeOptions
	// Outputs are the results for each text.
	Outputs []Output
	// MaxActiveDimensions is the number of entries to keep of each sparse vector, the largest ones; 0: all.
	MaxActiveDimensions int
}

// SparseVector has weights of tokens of the encoder's vocabulary: ascending token ids, and one weight
// above 0 each.
type SparseVector struct {
	Indices []uint32
	Values  []float32
}

// SparseEmbeddings has a sparse vector for each text.
type SparseEmbeddings struct {
	Texts []SparseVector
	Space VectorSpace
	Usage Usage
}

// Outputs are results of one pass, each in a vector space of its own; nil where it was not asked for.
type Outputs struct {
	TextVector   *Embeddings
	Sparse       *SparseEmbeddings
	TokenVectors *TokenEmbeddings
	Usage        Usage
}

// EncodeOutputs gives several results of one pass: dense, sparse and token vectors.
func (c *Client) EncodeOutputs(ctx context.Context, texts []string, options OutputsOptions) (*Outputs, error) {
	if len(options.Outputs) == 0 {
		return nil, invalid("outputs", "name some of TextVector, Sparse, TokenVectors", "Outputs is empty")
	}
	if len(texts) == 0 {
		return nil, invalid("texts", "give at least one text", "texts is empty")
	}
	if options.MaxActiveDimensions < 0 {
		return nil, invalid("max_active_dimensions", "give 1 or more, or 0 for all", "MaxActiveDimensions is %d", options.MaxActiveDimensions)
	}
	asked, err := c.ask(ctx, &options.EncodeOptions, wanted{outputs: options.Outputs, mostActive: options.MaxActiveDimensions})
	if err != nil {
		return nil, err
	}
	all := newOutputsJoiner(asked, len(texts))
	check := func(answer *encoderv1.EncodeResponse, start, count int) (struct{}, error) {
		return struct{}{}, all.add(answer, start, count)
	}
	for _, err := range parts(ctx, asked, textsOf(texts), sizeOfText, inputOfText, check) {
		if err != nil {
			return nil, err
		}
	}
	return all.whole(), nil
}

// outputsJoiner checks every result of the answers of one call, and puts them together, in order.
type outputsJoiner struct {
	outputs []Output
	dense   *checker
	sparse  *checker
	tokens  *checker
	joiner  joiner
	made    Outputs
}

func newOutputsJoiner(asked *asked, count int) *outputsJoiner {
	// Settings of dense vectors do not change the spaces of the others.
	other := *asked.options
	other.Dimensions, other.Normalise, other.DType, other.Collection = 0, nil, F32, nil
	question := other.question(asked.prompt, true)
	return &outputsJoiner{
		outputs: asked.wanted.outputs,
		dense:   asked.checker,
		sparse:  &checker{options: &other, question: "sparse " + question, known: asked.checker.known},
		tokens:  &checker{options: &other, question: question, known: asked.checker.known},
		joiner:  joiner{count: count},
	}
}

func (j *outputsJoiner) add(answer *encoderv1.EncodeResponse, start, count int) error {
	if err := textsFailed(itemErrors(answer.GetErrors(), start), nil); err != nil {
		return err
	}
	j.made.Usage.add(answer.GetUsage())
	for _, output := range j.outputs {
		if err := j.addOutput(output, answer, start, count); err != nil {
			return err
		}
	}
	return nil
}

func (j *outputsJoiner) addOutput(output Output, answer *encoderv1.EncodeResponse, start, count int) error {
	switch output {
	case Sparse:
		vectors, err := sparseVectors(answer, count)
		if err != nil {
			return err
		}
		if j.made.Sparse == nil {
			j.made.Sparse = &SparseEmbeddings{}
		}
		j.made.Sparse.Texts = append(j.made.Sparse.Texts, vectors...)
		j.made.Sparse.Space, err = j.sparse.space(answer.GetSparseVectorSpace())
		return err
	case TokenVectors:
		matrices, space, err := j.tokens.tokensOf(answer, answer.GetTokenEmbeddings(), answer.GetTokenVectorSpace(), start, count)
		if err != nil {
			return err
		}
		if j.made.TokenVectors == nil {
			j.made.TokenVectors = &TokenEmbeddings{}
		}
		j.made.TokenVectors.Texts = append(j.made.TokenVectors.Texts, matrices...)
		j.made.TokenVectors.Space = space
		return nil
	default:
		one, err := j.dense.embeddings(answer, start, count)
		if err != nil {
			return err
		}
		return j.joiner.add(one)
	}
}

func (j *outputsJoiner) whole() *Outputs {
	j.made.TextVector = j.joiner.joined
	if j.made.Sparse != nil {
		j.made.Sparse.Usage = j.made.Usage
	}
	if j.made.TokenVectors != nil {
		j.made.TokenVectors.Usage = j.made.Usage
	}
	return &j.made
}

// sparseVectors is one answer's sparse vectors, one for each of count texts.
func sparseVectors(answer *encoderv1.EncodeResponse, count int) ([]SparseVector, error) {
	if len(answer.GetSparseEmbeddings()) != count {
		return nil, badAnswer("ask again", "%d sparse vectors were answered to %d texts", len(answer.GetSparseEmbeddings()), count)
	}
	made := make([]SparseVector, 0, count)
	for place, one := range answer.GetSparseEmbeddings() {
		indices, values := one.GetIndices(), one.GetValues()
		sound := len(indices) == len(values)
		for entry := 0; sound && entry < len(indices); entry++ {
			value := float64(values[entry])
			sound = value > 0 && !math.IsInf(value, 1) && (entry == 0 || indices[entry] > indices[entry-1])
		}
		if !sound {
			return nil, badAnswer("ask again; if it stays so, the server is at fault",
				"the sparse vector of text %d has not one weight above 0 for each of ascending indices", place)
		}
		made = append(made, SparseVector{indices, values})
	}
	return made, nil
}
