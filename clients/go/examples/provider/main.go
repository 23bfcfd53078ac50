// An encoder of one's own: two methods, and provider.Serve does the rest.
//
//	go run ./examples/provider                    serves it
//	ISOMER_SERVER=127.0.0.1:50051 go run ./examples/provider --register
//
// Words and their trigrams are hashed into 256 columns: no model, no file. Put yours in their place.
package main

import (
	"context"
	"crypto/sha256"
	"log"
	"os"
	"slices"
	"strings"

	isomer "isomer.dev/go"
	"isomer.dev/go/provider"
)

type hashing struct{}

func (hashing) Describe() provider.Description {
	return provider.Description{
		ID: "go-hashing-256", Version: "go-hashing/1", Dimensions: 256, Prompts: map[string]string{"query": "query: "}, Matryoshka: []int{64, 128},
	}
}

func (hashing) Encode(_ context.Context, texts []string) ([][]float32, error) {
	rows := make([][]float32, len(texts))
	for place, text := range texts {
		rows[place] = vector(text)
	}
	return rows, nil
}

func vector(text string) []float32 {
	row := make([]float32, 256)
	for _, word := range strings.Fields(strings.ToLower(text)) {
		parts := []string{word}
		marked := []rune("<" + word + ">")
		for start := range len(marked) - 2 {
			parts = append(parts, string(marked[start:start+3]))
		}
		for _, part := range parts {
			digest := sha256.Sum256([]byte(part))
			row[digest[0]] += float32(digest[1]&1)*2 - 1
		}
	}
	// A text without words has a vector too, of unit length.
	if !slices.ContainsFunc(row, func(value float32) bool { return value != 0 }) {
		row[0] = 1
	}
	return row
}

func main() {
	options := provider.Options{}
	if slices.Contains(os.Args[1:], "--register") {
		gateway, err := isomer.FromEnvironment()
		if err != nil {
			log.Fatal(err)
		}
		options.Gateway = gateway
	}
	if err := provider.Serve(hashing{}, options); err != nil {
		log.Fatal(err)
	}
}
