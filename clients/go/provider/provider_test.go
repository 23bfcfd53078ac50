package provider

import (
	"strings"
	"testing"
)

func TestAnEncodersIDBecomesOneThatGatewaysTake(t *testing.T) {
	for encoder, due := range map[string]string{
		"Org/My_Model.v2":              "org-my-model-v2",
		"BAAI/bge-small-en-v1.5":       "baai-bge-small-en-v1-5",
		"hashing-256":                  "hashing-256",
		"--a--":                        "a",
		"模型":                           "provider",
		strings.Repeat("A", 70):        strings.Repeat("a", 63),
		strings.Repeat("a", 62) + "_b": strings.Repeat("a", 62),
	} {
		if found := ID(encoder); found != due {
			t.Errorf("%s: %s in place of %s", encoder, found, due)
		}
	}
}
