package isomer

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	commonv1 "isomer.dev/go/common/v1"

	"google.golang.org/grpc/codes"
)

// VectorSpace is what vectors must share to be compared; see the message of that name for each
// field. Store it beside an index, e.g. as JSON.
type VectorSpace struct {
	Digest         string `json:"digest"`
	ModelID        string `json:"model_id"`
	WeightsDigest  string `json:"weights_digest"`
	Prompt         string `json:"prompt"`
	Pooling        string `json:"pooling"`
	Normalised     bool   `json:"normalised"`
	Dimensions     uint32 `json:"dimensions"`
	DType          int32  `json:"dtype"`
	Augmentation   string `json:"augmentation"`
	Quantisation   string `json:"quantisation"`
	SettingsDigest string `json:"settings_digest"`
}

func spaceOf(message *commonv1.VectorSpace) VectorSpace {
	return VectorSpace{
		Digest: message.GetDigest(), ModelID: message.GetModelId(), WeightsDigest: message.GetWeightsDigest(), Prompt: message.GetPrompt(),
		Pooling: message.GetPooling(), Normalised: message.GetNormalised(), Dimensions: message.GetDimensions(), DType: int32(message.GetDtype()),
		Augmentation: message.GetAugmentation(), Quantisation: message.GetQuantisation(), SettingsDigest: message.GetSettingsDigest(),
	}
}

// Differing has the names of the fields that differ, the digest last, which follows from the others.
func (s VectorSpace) Differing(other VectorSpace) []string {
	names, _ := s.differing(other)
	return names
}

func (s VectorSpace) differing(other VectorSpace) (names, told []string) {
	for _, field := range []struct {
		name       string
		mine, them any
	}{
		{"model_id", s.ModelID, other.ModelID},
		{"weights_digest", s.WeightsDigest, other.WeightsDigest},
		{"prompt", s.Prompt, other.Prompt},
		{"pooling", s.Pooling, other.Pooling},
		{"normalised", s.Normalised, other.Normalised},
		{"dimensions", s.Dimensions, other.Dimensions},
		{"dtype", s.DType, other.DType},
		{"augmentation", s.Augmentation, other.Augmentation},
		{"quantisation", s.Quantisation, other.Quantisation},
		{"settings_digest", s.SettingsDigest, other.SettingsDigest},
	} {
		if field.mine != field.them {
			names = append(names, field.name)
			told = append(told, fmt.Sprintf("%s %#v in place of %#v", field.name, field.them, field.mine))
		}
	}
	if s.Digest != other.Digest {
		names = append(names, "digest")
	}
	return names, told
}

// ComparesWith reports whether vectors of the two may be compared: one space, or two that differ in
// the prompt alone.
func (s VectorSpace) ComparesWith(other VectorSpace) bool {
	return s.Digest == other.Digest || !slices.ContainsFunc(s.Differing(other), func(name string) bool { return name != "prompt" && name != "digest" })
}

// Collection is the space of vectors that are kept together, e.g. in one index. The first vectors
// decide which one it is, or the space that it is made with. Vectors that cannot be compared with it
// are a *SpaceMismatchError. Queries and documents may have prompts of their own. Goroutines and
// clients may share one.
type Collection struct {
	name  string
	lock  sync.Mutex
	space *VectorSpace
}

// NewCollection names a collection.
func NewCollection(name string) *Collection { return &Collection{name: name} }

// NewCollectionOf is a collection whose space is known.
func NewCollectionOf(name string, space VectorSpace) *Collection {
	return &Collection{name: name, space: &space}
}

// Space of the first vectors, and whether there were any.
func (c *Collection) Space() (VectorSpace, bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.space == nil {
		return VectorSpace{}, false
	}
	return *c.space, true
}

// Check says whether vectors of that space belong here.
func (c *Collection) Check(found VectorSpace) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.space == nil {
		c.space = &found
	}
	if !c.space.ComparesWith(found) {
		whose := "the collection"
		if c.name != "" {
			whose += " `" + c.name + "`"
		}
		return spaceMismatch(*c.space, found, whose)
	}
	return nil
}

func spaceMismatch(expected, found VectorSpace, whose string) error {
	differing, told := expected.differing(found)
	said := strings.Join(told, ", ")
	if said == "" {
		said = "digest " + found.Digest
	}
	failed := &Error{
		Code: codes.FailedPrecondition, Reason: ReasonSpaceMismatch, Field: "vector_space",
		Message:  fmt.Sprintf("vectors of another space than those of %s: %s", whose, said),
		Hint:     "encode everything again into a collection of its own, or ask the encoder that the first vectors came from",
		Attempts: 1,
	}
	return &SpaceMismatchError{Failure: failed, Expected: expected, Found: found, Differing: differing}
}

// knownSpaces has the spaces that a client has seen: the same question must not be answered in
// another space later.
type knownSpaces struct {
	lock   sync.Mutex
	spaces map[string]VectorSpace
}

func (k *knownSpaces) check(encoder, asked string, found VectorSpace) error {
	k.lock.Lock()
	defer k.lock.Unlock()
	expected, known := k.spaces[asked]
	if !known {
		k.spaces[asked] = found
		return nil
	}
	if expected.Digest != found.Digest {
		return spaceMismatch(expected, found, "`"+encoder+"` before")
	}
	return nil
}
