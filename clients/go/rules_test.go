package isomer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	commonv1 "isomer.dev/go/common/v1"
	encoderv1 "isomer.dev/go/encoder/v1"
	_ "isomer.dev/go/eval/v1"
	_ "isomer.dev/go/gateway/v1"
	transformv1 "isomer.dev/go/transform/v1"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

func failure(t *testing.T, err error) *Error {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatalf("%v is no *Error", err)
	}
	return failed
}

func TestAddressesAreReadAsEveryClientReadsThem(t *testing.T) {
	for address, due := range map[string]string{
		"127.0.0.1:50051":         "127.0.0.1:50051 false",
		"http://gateway:80":       "gateway:80 false",
		"grpc://gateway:80/":      "gateway:80 false",
		"https://gateway.example": "gateway.example:443 true",
		"grpcs://gateway:8443":    "gateway:8443 true",
		"[::1]:50051":             "[::1]:50051 false",
		"unix:/run/isomer":        "unix:/run/isomer false",
	} {
		target, secure, err := newSettings(address, nil).target()
		if found := fmt.Sprint(target, " ", secure); err != nil || found != due {
			t.Errorf("%s: %s, %v in place of %s", address, found, err, due)
		}
	}
	for _, address := range []string{"", "http://", "gateway", "ftp://gateway:1", "http://a:1/path", "http://user@a:1", "a:port", "http://a:1?x=1"} {
		_, err := Connect(address)
		if failed := failure(t, err); failed.Field != "address" || failed.Code != codes.InvalidArgument || failed.Hint == "" {
			t.Errorf("%s: %+v", address, failed)
		}
	}
}

func TestSecretsStayOnThisMachineWithoutTLS(t *testing.T) {
	source := TokenFunc(func(context.Context) (Token, error) { return Token{Value: "t"}, nil })
	for _, secret := range []Option{WithKey("iso_key"), WithTokenSource(source)} {
		_, err := Connect("gateway:50051", secret)
		if failed := failure(t, err); failed.Reason != ReasonSecretInPlainText {
			t.Errorf("%+v", failed)
		}
		for _, address := range []string{"127.0.0.1:1", "localhost:1", "[::1]:1", "https://gateway", "unix:/run/isomer"} {
			client, err := Connect(address, secret)
			if err != nil {
				t.Fatalf("%s: %v", address, err)
			}
			_ = client.Close()
		}
		client, err := Connect("gateway:50051", secret, WithSecretOverPlainText())
		if err != nil {
			t.Fatal(err)
		}
		_ = client.Close()
	}
}

func TestSettingsThatCannotBeMeantAreNamed(t *testing.T) {
	source := TokenFunc(func(context.Context) (Token, error) { return Token{}, nil })
	for field, options := range map[string][]Option{
		"token":           {WithKey("a"), WithTokenSource(source)},
		"key":             {WithKey("iso\nkey")},
		"in_flight":       {WithInFlight(0)},
		"batch_items":     {WithBatches(0, 1)},
		"batch_bytes":     {WithBatches(1, 0)},
		"timeout":         {WithTimeout(-time.Second)},
		"metadata":        {WithKey("a"), WithMetadata("authorization", "b")},
		"tls.ca":          {WithTLS(TLS{CAFile: "/nowhere.pem"})},
		"tls.certificate": {WithTLS(TLS{KeyFile: "key.pem"})},
	} {
		_, err := Connect("127.0.0.1:1", options...)
		if failed := failure(t, err); failed.Field != field || failed.Hint == "" {
			t.Errorf("%s: %+v", field, failed)
		}
	}
}

func TestRetriesFollowTheServerAndTheDeadline(t *testing.T) {
	after := func(wait time.Duration) *time.Duration { return &wait }
	never := time.Time{}
	soon := time.Now().Add(time.Second)
	for name, one := range map[string]struct {
		failed     Error
		attempt    int
		repeatable bool
		deadline   time.Time
		again      bool
		least      time.Duration
	}{
		"as the server says":        {Error{Code: codes.ResourceExhausted, RetryAfter: after(time.Second)}, 1, false, never, true, time.Second},
		"longer than is waited":     {Error{Code: codes.ResourceExhausted, RetryAfter: after(time.Minute)}, 1, true, never, false, 0},
		"beyond the deadline":       {Error{Code: codes.ResourceExhausted, RetryAfter: after(2 * time.Second)}, 1, true, soon, false, 0},
		"no word of when":           {Error{Code: codes.ResourceExhausted}, 1, true, never, false, 0},
		"often enough":              {Error{Code: codes.ResourceExhausted, RetryAfter: after(0)}, 8, true, never, false, 0},
		"unreachable":               {Error{Code: codes.Unavailable}, 1, true, never, true, 100 * time.Millisecond},
		"unreachable, only once":    {Error{Code: codes.Unavailable}, 1, false, never, false, 0},
		"unreachable often enough":  {Error{Code: codes.Unavailable}, 6, true, never, false, 0},
		"a defect":                  {Error{Code: codes.Internal}, 1, true, never, false, 0},
		"its time is over":          {Error{Code: codes.DeadlineExceeded}, 1, true, never, false, 0},
		"with RetryInfo, only once": {Error{Code: codes.Unavailable, RetryAfter: after(time.Second)}, 1, false, never, true, time.Second},
		"invalid, whatever it says": {Error{Code: codes.InvalidArgument, RetryAfter: after(time.Second)}, 1, true, never, false, 0},
	} {
		wait, again := DefaultRetries.wait(&one.failed, one.attempt, one.repeatable, one.deadline)
		if again != one.again || again && wait < one.least {
			t.Errorf("%s: %s, %t", name, wait, again)
		}
	}
	if wait, again := (RetryPolicy{Unreachable: 1000, FirstWait: time.Second, LongestWait: time.Minute}).wait(
		&Error{Code: codes.Unavailable}, 200, true, never); !again || wait <= 0 || wait > time.Minute {
		t.Errorf("attempt 200: %s, %t", wait, again)
	}
}

func TestWhatMustNotBeRepeatedIsInTheProtos(t *testing.T) {
	found := map[string]bool{}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for place := range file.Services().Len() {
			service := file.Services().Get(place)
			for place := range service.Methods().Len() {
				found[fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(place).Name())] = true
			}
		}
		return true
	})
	for method := range once {
		if !found[method] {
			t.Errorf("there is no %s", method)
		}
	}
	for method := range found {
		name := method[strings.LastIndex(method, "/")+1:]
		// Of what changes something, what may be made twice is named here, so that a new rpc is thought of.
		same := slices.Contains([]string{"CreateRun", "CancelRun", "RevokeKey", "UpdateKey", "RenewLease"}, name)
		for _, verb := range []string{"Create", "Delete", "Update", "Cancel", "Revoke"} {
			if strings.HasPrefix(name, verb) && !same && !once[method] {
				t.Errorf("may %s be made twice?", method)
			}
		}
	}
}

func TestFieldsCountInTheCallersList(t *testing.T) {
	failed := &Error{Message: "inputs[3].text is bad; see pairs[10]", Field: "inputs[3].text", Method: "/m"}
	if err := moved(failed, 32); err != error(failed) || failed.Field != "inputs[35].text" || failed.Message != "inputs[35].text is bad; see pairs[42]" {
		t.Errorf("%+v", failed)
	}
	own := invalid("inputs[3]", "", "inputs[3] is bad")
	_ = moved(own, 32)
	if own.Field != "inputs[3]" {
		t.Errorf("what was not sent has its place already: %+v", own)
	}
}

func TestErrorsAreFoundByKindAndByTheContextsEnd(t *testing.T) {
	err := textsFailed([]ItemError{{7, codes.Internal, "no"}, {9, codes.Internal, "no"}}, &Embeddings{})
	var failed *TextsFailedError
	if !errors.As(err, &failed) || failed.Errors[1].Index != 9 || failure(t, err).Field != "inputs[7]" {
		t.Errorf("%v", err)
	}
	if err := error(&Error{Code: codes.Canceled}); !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if err := error(&Error{Code: codes.DeadlineExceeded}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if textsFailed(nil, nil) != nil {
		t.Error("no texts failed")
	}
}

func TestBatchesLoseNothingAndKeepTheLimits(t *testing.T) {
	for _, mostItems := range []int{1, 2, 7, 1000} {
		for _, mostBytes := range []int{1, 10, 1000} {
			var texts []string
			for number := range 50 {
				texts = append(texts, strings.Repeat("x", number%13))
			}
			var joined []string
			for one := range batches(slices.Values(texts), mostItems, mostBytes, sizeOfText) {
				bytes := 0
				for _, text := range one.items {
					bytes += len(text)
				}
				if one.start != len(joined) || len(one.items) == 0 || len(one.items) > mostItems || bytes > mostBytes && len(one.items) > 1 {
					t.Fatalf("%d items, %d bytes: %+v", mostItems, mostBytes, one)
				}
				joined = append(joined, one.items...)
			}
			if !slices.Equal(joined, texts) {
				t.Errorf("%d items, %d bytes: %v", mostItems, mostBytes, joined)
			}
		}
	}
	for range batches(slices.Values([]string{}), 1, 1, sizeOfText) {
		t.Error("no texts make no request")
	}
}

func TestOrderedKeepsOrderAndReadsNoFurtherThanItWorks(t *testing.T) {
	var read, running, most atomic.Int32
	items := iter.Seq[int](func(yield func(int) bool) {
		for number := range 40 {
			read.Add(1)
			if !yield(number) {
				return
			}
		}
	})
	work := func(_ context.Context, number int) (int, error) {
		if now := running.Add(1); now > most.Load() {
			most.Store(now)
		}
		defer running.Add(-1)
		// Later ones of each four are done first.
		time.Sleep(time.Duration(4-number%4) * time.Millisecond)
		return number, nil
	}
	next := 0
	for number, err := range ordered(context.Background(), items, 4, work) {
		if err != nil || number != next {
			t.Fatalf("%d, %v in place of %d", number, err, next)
		}
		next++
		if ahead := int(read.Load()) - next; ahead > 4 {
			t.Fatalf("%d were read ahead", ahead)
		}
	}
	if next != 40 || most.Load() < 2 || most.Load() > 4 {
		t.Errorf("%d, %d at once", next, most.Load())
	}
}

func TestOrderedCancelsTheOthers(t *testing.T) {
	var ended atomic.Int32
	work := func(ctx context.Context, number int) (int, error) {
		if number == 0 {
			return 0, nil
		}
		<-ctx.Done()
		ended.Add(1)
		return 0, ctx.Err()
	}
	for range ordered(context.Background(), slices.Values([]int{0, 1, 2, 3, 4, 5}), 3, work) {
		break
	}
	if ended.Load() != 2 {
		t.Errorf("%d were in flight when the loop was left, and are over", ended.Load())
	}
	failing := func(ctx context.Context, number int) (int, error) {
		if number == 0 {
			return 0, errors.New("bad")
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}
	count := 0
	for _, err := range ordered(context.Background(), slices.Values([]int{0, 1, 2}), 3, failing) {
		if count++; err == nil || err.Error() != "bad" {
			t.Errorf("%v", err)
		}
	}
	if count != 1 {
		t.Errorf("%d results after an error", count)
	}
}

func TestRolesFindTheEncodersPrompts(t *testing.T) {
	encoder := &encoderv1.Encoder{Prompts: map[string]string{"query": "q: ", "passage": "p: ", "STS": "s: ", "Retrieval-document": "d: "}}
	for role, due := range map[string]string{
		"query": "query", "Query": "query", "document": "passage", "corpus": "passage", "sts": "STS", "Retrieval-query": "query",
		"Retrieval-corpus": "Retrieval-document", "Clustering": "", "Reranking-passage": "passage",
	} {
		if found := promptOfRole(encoder, role); found != due {
			t.Errorf("%s: `%s` in place of `%s`", role, found, due)
		}
	}
	_, err := (&EncodeOptions{PromptName: "a", Role: "b"}).prompt(encoder)
	if failure(t, err).Field != "prompt" {
		t.Error(err)
	}
}

func TestMatricesAreViewsAndConvert(t *testing.T) {
	whole := []float32{1.5, -2, float32(math.Inf(1)), 0, 3, 4}
	matrix, err := NewMatrix([][]float32{whole[:3], whole[3:]})
	if err != nil || !slices.Equal(matrix.Float32s(), whole) || !slices.Equal(matrix.Row(1), whole[3:]) {
		t.Fatalf("%v, %v", matrix, err)
	}
	if !matrix.IsView() || &matrix.Float32s()[3] != &matrix.Row(1)[0] {
		t.Error("a row is no view")
	}
	// Bytes that do not lie as floats must lie are copied, and the numbers are the same.
	shifted := Matrix{Rows: 2, Cols: 3, DType: F32, data: append([]byte{0}, matrix.data...)[1:]}
	if shifted.IsView() || !slices.Equal(shifted.Float32s(), whole) {
		t.Errorf("%v", shifted.Float32s())
	}
	for _, one := range []struct {
		message *commonv1.Matrix
		due     []float32
	}{
		{&commonv1.Matrix{Rows: 1, Cols: 5, Dtype: F16, Data: []byte{0, 0x3c, 0, 0xc0, 1, 0, 0xff, 0x7b, 0, 0xfc}}, []float32{1, -2, 1. / (1 << 24), 65504, float32(math.Inf(-1))}},
		{&commonv1.Matrix{Rows: 2, Cols: 1, Dtype: Int8, Data: []byte{127, 128}}, []float32{127, -128}},
		{&commonv1.Matrix{Rows: 1, Cols: 10, Dtype: UBinary, Data: []byte{0b10000001, 0b01000000}}, []float32{1, 0, 0, 0, 0, 0, 0, 1, 0, 1}},
	} {
		matrix, err := viewOf(one.message)
		if err != nil || !slices.Equal(matrix.Float32s(), one.due) {
			t.Errorf("%v: %v, %v", one.message, matrix.Float32s(), err)
		}
	}
	for _, bad := range []*commonv1.Matrix{
		nil, {Rows: 1, Cols: 2, Dtype: F32, Data: make([]byte, 7)}, {Rows: 1, Cols: 2, Dtype: 99, Data: make([]byte, 8)}, {Rows: 1 << 31, Cols: 1 << 31, Dtype: F32},
	} {
		if _, err := viewOf(bad); failure(t, err).Code != codes.DataLoss {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := NewMatrix([][]float32{{1}, {1, 2}}); failure(t, err).Field != "rows" {
		t.Error(err)
	}
}

func TestCollectionsTakeOnePromptOrAnother(t *testing.T) {
	space := VectorSpace{Digest: "a", ModelID: "m", Dimensions: 8}
	collection := NewCollection("articles")
	if _, any := collection.Space(); any {
		t.Error("it has a space before the first vectors")
	}
	prompted, narrow := space, space
	prompted.Digest, prompted.Prompt = "b", "query: "
	narrow.Digest, narrow.Dimensions = "c", 4
	for _, one := range []VectorSpace{space, prompted, space} {
		if err := collection.Check(one); err != nil {
			t.Error(err)
		}
	}
	var mismatch *SpaceMismatchError
	if err := collection.Check(narrow); !errors.As(err, &mismatch) || !slices.Equal(mismatch.Differing, []string{"dimensions", "digest"}) {
		t.Errorf("%v", err)
	}
	if err := NewCollectionOf("", narrow).Check(space); failure(t, err).Reason != ReasonSpaceMismatch {
		t.Error(err)
	}
}

func TestTransformationsAreNamedWithTheirParameters(t *testing.T) {
	made, err := NamedTransformation("translation", map[string]any{"target_language": "de"})
	if err != nil || made.GetTranslation().GetTargetLanguage() != "de" {
		t.Errorf("%v, %v", made, err)
	}
	if made, err := NamedTransformation("paraphrase", nil); err != nil || made.GetParaphrase() == nil {
		t.Errorf("%v, %v", made, err)
	}
	for field, one := range map[string]struct {
		name       string
		parameters map[string]any
	}{
		"spec.transformation":                             {"paraphrse", nil},
		"spec.transformation.translation.language":        {"translation", map[string]any{"language": "de"}},
		"spec.transformation.translation.target_language": {"translation", map[string]any{"target_language": 7}},
	} {
		if _, err := NamedTransformation(one.name, one.parameters); failure(t, err).Field != field || failure(t, err).Hint == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	options := TransformOptions{Transformation: "paraphrase", Spec: &transformv1.TransformSpec{Run: "r"}}
	if spec, err := options.spec(); err != nil || spec.GetRun() != "r" || options.Spec.GetTransformation() != nil {
		t.Errorf("%v, %v, and the caller's own is as it was: %v", spec, err, options.Spec)
	}
}

func TestClientCredentialsGetTokens(t *testing.T) {
	var asked atomic.Int32
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"token_endpoint": "%s/token"}`, server.URL)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("client_secret") != "s&cret" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("audience") != "isomer" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"access_token": "token-%d", "expires_in": 3600}`, asked.Add(1))
	})
	source := &ClientCredentials{ClientID: "me", ClientSecret: "s&cret", Issuer: server.URL, Audience: "isomer"}
	kept := &keptToken{source: source}
	for range 3 {
		if value, err := kept.value(context.Background()); err != nil || value != "token-1" {
			t.Fatalf("%s, %v", value, err)
		}
	}
	kept.refused("another")
	if value, _ := kept.value(context.Background()); value != "token-1" {
		t.Error("a token that was replaced already is not forgotten again")
	}
	kept.refused("token-1")
	if value, _ := kept.value(context.Background()); value != "token-2" {
		t.Error("a refused token is asked for again")
	}
	if !(Token{Value: "a", ExpiresAt: time.Now().Add(time.Minute)}).usable() || (Token{Value: "a", ExpiresAt: time.Now().Add(time.Second)}).usable() {
		t.Error("a token is not sent in its last seconds")
	}
	wrong := &ClientCredentials{ClientID: "me", ClientSecret: "other", TokenURL: server.URL + "/token"}
	if _, err := wrong.Token(context.Background()); failure(t, err).Code != codes.Unauthenticated {
		t.Error(err)
	}
	for _, bad := range []*ClientCredentials{{Issuer: "http://login.example"}, {}, {Issuer: server.URL, TokenURL: server.URL}} {
		if _, err := bad.Token(context.Background()); failure(t, err).Field != "issuer" {
			t.Error(err)
		}
	}
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v", source, source, source), fmt.Sprintf("%v %+v %#v", kept.token, kept.token, kept.token)} {
		if strings.Contains(shown, "s&cret") || strings.Contains(shown, "token-2") {
			t.Error("a secret is shown: " + shown)
		}
	}
}

func TestTextsThatAreNotUTF8AreNamed(t *testing.T) {
	if _, err := inputOfText("a\xff", 7); failure(t, err).Field != "inputs[7]" {
		t.Error(err)
	}
	if _, err := inputOfText("grüße", 0); err != nil {
		t.Error(err)
	}
}
