package isomer

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// hintKey is the metadata of google.rpc.ErrorInfo under which servers put the hint.
const hintKey = "mend"

// Reasons of errors that this client finds itself.
const (
	ReasonSpaceMismatch     = "SPACE_MISMATCH"
	ReasonTextsFailed       = "TEXTS_FAILED"
	ReasonSecretInPlainText = "SECRET_IN_PLAIN_TEXT"
	reasonClientTooOld      = "CLIENT_TOO_OLD"
	reasonInvalidArgument   = "INVALID_ARGUMENT"
)

// ErrClientTooOld is found by errors.Is in the error of every call to a server that serves no client
// as old as this one. Metadata of the *Error says under `oldest_client` which it serves.
var ErrClientTooOld = errors.New("the client is older than any that the server serves")

// Error is a call that failed, or an argument that cannot be meant. Get it with errors.As:
//
//	var failed *isomer.Error
//	if errors.As(err, &failed) && failed.Code == codes.NotFound { … }
//
// errors.Is finds context.Canceled, context.DeadlineExceeded and ErrClientTooOld in it.
type Error struct {
	// Code is the gRPC code.
	Code codes.Code
	// Reason is the server's stable reason, e.g. UNKNOWN_ENCODER; empty where there is none.
	Reason string
	// Message says what is wrong, in one sentence that names the field.
	Message string
	// Field is the path of the invalid field, e.g. `inputs[3].text`. An index
	// refers to the caller's list, however it was split into requests.
	Field string
	// Hint says what to do about it.
	Hint string
	// RetryAfter is how long to wait before trying again makes sense; nil where the server says
	// nothing.
	RetryAfter *time.Duration
	// Metadata has further facts, e.g. `scope`.
	Metadata map[string]string
	// Method is the rpc, e.g. /isomer.encoder.v1.EncoderService/Encode; empty where none was made.
	Method string
	// Attempts is how often it was made.
	Attempts int

	cause error
}

func (e *Error) Error() string {
	if e.Hint != "" {
		return fmt.Sprintf("%s (%s)", e.Message, e.Hint)
	}
	return e.Message
}

// Unwrap gives the error of gRPC or of the operating system, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether it is the end of a context, or [ErrClientTooOld].
func (e *Error) Is(target error) bool {
	return target == ErrClientTooOld && e.Reason == reasonClientTooOld ||
		target == context.Canceled && e.Code == codes.Canceled || target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded
}

// GRPCStatus makes status.Code and status.FromError work with it.
func (e *Error) GRPCStatus() *status.Status {
	if found, ok := e.cause.(interface{ GRPCStatus() *status.Status }); ok {
		return found.GRPCStatus()
	}
	return status.New(e.Code, e.Message)
}

// SpaceMismatchError is vectors of two spaces where one is expected. They must not be compared or
// stored together.
type SpaceMismatchError struct {
	// Failure has the code, the field and the hint.
	Failure         *Error
	Expected, Found VectorSpace
	// Differing has the names of the fields that differ, the digest last, which follows from the
	// others.
	Differing []string
}

func (e *SpaceMismatchError) Error() string { return e.Failure.Error() }

// Unwrap makes errors.As find the *Error.
func (e *SpaceMismatchError) Unwrap() error { return e.Failure }

// TextsFailedError is texts of a list that have no vector, while others have. Embeddings has the
// others, with rows of zeros for these; it is nil where the call has none.
type TextsFailedError struct {
	// Failure has the code, the field and the hint of the first one.
	Failure    *Error
	Errors     []ItemError
	Embeddings *Embeddings
}

func (e *TextsFailedError) Error() string { return e.Failure.Error() }

// Unwrap makes errors.As find the *Error.
func (e *TextsFailedError) Unwrap() error { return e.Failure }

func invalid(field, hint, format string, values ...any) *Error {
	return &Error{
		Code: codes.InvalidArgument, Reason: reasonInvalidArgument, Field: field, Hint: hint, Message: fmt.Sprintf(format, values...), Attempts: 1,
	}
}

// badAnswer is an answer that does not fit its request.
func badAnswer(hint, format string, values ...any) *Error {
	return &Error{Code: codes.DataLoss, Hint: hint, Message: fmt.Sprintf(format, values...), Attempts: 1}
}

// fromRPC is the error of a failed call, with what its details say.
func fromRPC(err error, method string, attempts int) *Error {
	var made *Error
	if errors.As(err, &made) {
		return made
	}
	said := status.Convert(err)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		said = status.FromContextError(err)
	}
	failed := &Error{Code: said.Code(), Message: said.Message(), Method: method, Attempts: attempts, cause: err}
	if failed.Message == "" {
		failed.Message = failed.Code.String()
	}
	for _, detail := range said.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			failed.Reason = detail.GetReason()
			failed.Metadata = detail.GetMetadata()
			failed.Hint = failed.Metadata[hintKey]
			delete(failed.Metadata, hintKey)
		case *errdetails.BadRequest:
			if violations := detail.GetFieldViolations(); len(violations) > 0 {
				failed.Field = violations[0].GetField()
			}
		case *errdetails.RetryInfo:
			wait := detail.GetRetryDelay().AsDuration()
			failed.RetryAfter = &wait
		}
	}
	return failed
}

// indexed is a place in a list of the request.
var indexed = regexp.MustCompile(`\b(inputs|items|documents|texts|pairs)\[(\d+)\]`)

// moved is the error with places in lists counted from start: a request of several may hold any
// part of a list. Requests refused before they were sent have their index already.
func moved(err error, start int) error {
	var failed *Error
	if start == 0 || !errors.As(err, &failed) || failed.Method == "" {
		return err
	}
	move := func(text string) string {
		return indexed.ReplaceAllStringFunc(text, func(found string) string {
			parts := indexed.FindStringSubmatch(found)
			place, err := strconv.Atoi(parts[2])
			if err != nil {
				return found
			}
			return fmt.Sprintf("%s[%d]", parts[1], place+start)
		})
	}
	failed.Message, failed.Field = move(failed.Message), move(failed.Field)
	return err
}
