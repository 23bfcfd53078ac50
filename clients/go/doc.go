// Package isomer is a client of Isomer's gRPC services: text encoders, rerankers, transformations,
// augmented vectors (GASE), scores, statistics and robustness checks.
//
//	client, err := isomer.FromEnvironment()
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	found, err := client.Encode(ctx, []string{"A man is playing a guitar."}, isomer.EncodeOptions{Encoder: "all-MiniLM-L6-v2"})
//
// A Client may be used by any number of goroutines. Make one and keep it: it is one connection.
// Every method takes a context: its end cancels the call and what is in flight at the server, and
// its deadline is for all requests of the call together. A request without one has that of
// WithTimeout.
//
// Errors are of type *Error, with the code, the reason, the field and the hint that the server
// gives. The generated messages are in the folders common/v1, encoder/v1, transform/v1, eval/v1 and
// gateway/v1 of this module.
package isomer

// Version of this client, which it sends in user-agent.
const Version = "0.1.0"
