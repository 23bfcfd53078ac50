package isomer

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
)

// RetryPolicy says how often a request is made again. A refusal with RetryInfo is waited out as the
// server asks. A broken connection is tried again with growing pauses, and only for calls that may
// be made twice. Everything else is final.
type RetryPolicy struct {
	// Overloaded is the most attempts at a server that says when to come back.
	Overloaded int
	// Unreachable is the most attempts at a server that cannot be reached.
	Unreachable int
	// FirstWait is the pause before the second attempt; it doubles from attempt to attempt.
	FirstWait time.Duration
	// LongestWait is the most between two attempts. A server that asks for longer is not asked
	// again.
	LongestWait time.Duration
}

// DefaultRetries is the default policy of a client.
var DefaultRetries = RetryPolicy{Overloaded: 8, Unreachable: 6, FirstWait: 200 * time.Millisecond, LongestWait: 20 * time.Second}

// NoRetries makes every request once.
var NoRetries = RetryPolicy{Overloaded: 1, Unreachable: 1}

// wait is the pause before the next attempt; false where the error is final. The pause must not use
// up the time that is left to the call.
func (p RetryPolicy) wait(failed *Error, attempt int, repeatable bool, deadline time.Time) (time.Duration, bool) {
	own := p.LongestWait
	// Beyond 30 doublings any pause is the longest one.
	if attempt <= 30 {
		own = min(p.FirstWait<<(attempt-1), p.LongestWait)
	}
	var wait time.Duration
	switch {
	case failed.RetryAfter != nil && (failed.Code == codes.ResourceExhausted || failed.Code == codes.Unavailable):
		if attempt >= p.Overloaded || *failed.RetryAfter > p.LongestWait {
			return 0, false
		}
		wait = max(*failed.RetryAfter, own)
	case repeatable && (failed.Code == codes.Unavailable || failed.Code == codes.Canceled):
		if attempt >= p.Unreachable {
			return 0, false
		}
		// Between half and all of it, so that clients of one server do not come back together.
		wait = time.Duration((0.5 + rand.Float64()/2) * float64(own))
	default:
		return 0, false
	}
	return wait, deadline.IsZero() || wait < time.Until(deadline)
}

// once has the rpcs that must not be made twice. For all others a second one is the same as one:
// CreateRun has a request_id, by which the server knows it again.
var once = map[string]bool{
	"/isomer.eval.v1.RunService/DeleteRun":              true,
	"/isomer.gateway.v1.ProviderService/CreateProvider": true,
	// With an etag a second one would find the first's change and be ABORTED.
	"/isomer.gateway.v1.ProviderService/UpdateProvider": true,
	"/isomer.gateway.v1.ProviderService/DeleteProvider": true,
	"/isomer.gateway.v1.AccessService/CreateKey":        true,
}
