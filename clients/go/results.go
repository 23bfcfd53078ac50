package isomer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	commonv1 "isomer.dev/go/common/v1"
	encoderv1 "isomer.dev/go/encoder/v1"
	transformv1 "isomer.dev/go/transform/v1"

	"google.golang.org/grpc/codes"
)

// ItemError is a text of a list that has no vector. Index is its place in the caller's list.
type ItemError struct {
	Index   int
	Code    codes.Code
	Message string
}

// Usage is what a call consumed, over all its requests; see the message of that name.
type Usage struct {
	Texts, Tokens, CachedTexts, GeneratedTokens, GeneratorCalls uint64
	TokensEstimated                                             bool
	CostNanoUSD                                                 uint64
}

func (u *Usage) add(message *commonv1.Usage) {
	u.Texts += uint64(message.GetTexts())
	u.Tokens += uint64(message.GetTokens())
	u.CachedTexts += uint64(message.GetCachedTexts())
	u.GeneratedTokens += uint64(message.GetGeneratedTokens())
	u.GeneratorCalls += uint64(message.GetGeneratorCalls())
	u.TokensEstimated = u.TokensEstimated || message.GetTokensEstimated()
	u.CostNanoUSD += uint64(message.GetCostNanoUsd())
}

// Embeddings are vectors of texts, in the order of the texts: one row per text. Vectors of one answer
// are a view of that answer's bytes; vectors of several answers are one slice of their own.
type Embeddings struct {
	Matrix
	Space       VectorSpace
	TokenCounts []uint32
	// Truncated says of each text whether it was cut; nil where the encoder does not say.
	Truncated []bool
	Usage     Usage
	Errors    []ItemError
}

// TokenEmbeddings has a vector for each token of each text: Texts[i] has the rows of text i, special
// tokens and prompt included.
type TokenEmbeddings struct {
	Texts []Matrix
	Space VectorSpace
	Usage Usage
}

// Ranked is a document with its score. Index is its place in the caller's list.
type Ranked struct {
	Index       int
	Score       float32
	LabelScores []float32
	Truncated   bool
}

// Ranking is documents, best first.
type Ranking struct {
	Results []Ranked
	Labels  []string
	Usage   Usage
}

// Scores in the order of the count documents asked about; NaN for those that TopN left out.
func (r *Ranking) Scores(count int) []float32 {
	scores := make([]float32, count)
	for place := range scores {
		scores[place] = float32(math.NaN())
	}
	for _, result := range r.Results {
		scores[result.Index] = result.Score
	}
	return scores
}

// Transformed is transformed texts, in the order of the texts. Results are the messages, with
// outcome, measures and provenance.
type Transformed struct {
	Results   []*transformv1.TransformResult
	Summaries []*transformv1.TransformSummary
	Usage     Usage
}

// Texts has one text each; empty where the text failed, or has several (see Results).
func (t *Transformed) Texts() []string {
	texts := make([]string, len(t.Results))
	for place, result := range t.Results {
		texts[place] = result.GetText()
	}
	return texts
}

// AugmentedEmbeddings are vectors pooled of texts and their variants (GASE). Used[i] says which
// variants went into row i, and which are missing.
type AugmentedEmbeddings struct {
	Embeddings
	Used []*transformv1.Variants
}

// Report of a run in one form.
type Report struct {
	Content             []byte
	MediaType, FileName string
}

// part is an answer to the texts from a place of the caller's list on.
type part[R any] struct {
	start, count int
	answer       R
}

// ranking is the answers to parts of a list as one: best first, equal scores in the caller's order.
func ranking(parts []part[*encoderv1.RerankResponse], topN int) *Ranking {
	made := &Ranking{}
	for _, one := range parts {
		for _, result := range one.answer.GetResults() {
			made.Results = append(made.Results, Ranked{
				Index: int(result.GetIndex()) + one.start, Score: result.GetScore(), LabelScores: result.GetLabelScores(), Truncated: result.GetTruncated(),
			})
		}
		made.Usage.add(one.answer.GetUsage())
	}
	if len(parts) > 0 {
		made.Labels = parts[0].answer.GetLabels()
	}
	if len(parts) > 1 {
		slices.SortStableFunc(made.Results, func(one, other Ranked) int {
			return cmp.Or(cmp.Compare(other.Score, one.Score), cmp.Compare(one.Index, other.Index))
		})
	}
	if topN > 0 && len(made.Results) > topN {
		made.Results = made.Results[:topN]
	}
	return made
}

func itemErrors(errors []*commonv1.ItemError, start int) []ItemError {
	var made []ItemError
	for _, one := range errors {
		made = append(made, ItemError{int(one.GetIndex()) + start, codes.Code(one.GetCode()), one.GetMessage()})
	}
	return made
}

// textsFailed is the error of texts without vectors; nil where there are none.
func textsFailed(errors []ItemError, embeddings *Embeddings) error {
	if len(errors) == 0 {
		return nil
	}
	first, more, hint := errors[0], "", ""
	if len(errors) > 1 {
		more = fmt.Sprintf(", and %d more texts", len(errors)-1)
	}
	if embeddings != nil {
		hint = "Partial gives the others, and the errors beside them"
	}
	field := fmt.Sprintf("inputs[%d]", first.Index)
	failed := &Error{
		Code: first.Code, Reason: ReasonTextsFailed, Field: field, Hint: hint, Message: fmt.Sprintf("%s: %s%s", field, first.Message, more), Attempts: 1,
	}
	return &TextsFailedError{Failure: failed, Errors: errors, Embeddings: embeddings}
}

func (u *Usage) sum(other Usage) {
	u.Texts += other.Texts
	u.Tokens += other.Tokens
	u.CachedTexts += other.CachedTexts
	u.GeneratedTokens += other.GeneratedTokens
	u.GeneratorCalls += other.GeneratorCalls
	u.TokensEstimated = u.TokensEstimated || other.TokensEstimated
	u.CostNanoUSD += other.CostNanoUSD
}
