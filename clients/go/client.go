package isomer

import (
	"context"
	"iter"
	"sync"

	encoderv1 "isomer.dev/go/encoder/v1"
	evalv1 "isomer.dev/go/eval/v1"
	gatewayv1 "isomer.dev/go/gateway/v1"
	transformv1 "isomer.dev/go/transform/v1"

	"google.golang.org/grpc"
)

// Client of one Isomer server. Any number of goroutines may use it.
type Client struct {
	// Tasks gives scores of vectors and of data sets.
	Tasks *Tasks
	// Statistics has tests and intervals of scores: the generated stub, with what this client does
	// for every call. Series makes its series.
	Statistics evalv1.StatisticsServiceClient
	// Runs are robustness checks.
	Runs *Runs
	// Providers of encoders at the gateway.
	Providers *Providers
	// Keys of the gateway, and its audit log.
	Keys *Keys

	transport     *transport
	encoding      encoderv1.EncoderServiceClient
	transforming  transformv1.TransformServiceClient
	augmentation  transformv1.AugmentationServiceClient
	spaces        *knownSpaces
	encodersLock  sync.Mutex
	knownEncoders map[string]*encoderv1.Encoder
}

// Connect makes a client of the server at an address: host:port, http://host:port, or https://host
// (TLS; port 443 unless given). It sends nothing: the first call connects.
func Connect(address string, options ...Option) (*Client, error) {
	transport, err := dial(newSettings(address, options))
	if err != nil {
		return nil, err
	}
	conn := transport.conn
	made := &Client{
		Tasks:         &Tasks{evalv1.NewTaskServiceClient(conn)},
		Statistics:    evalv1.NewStatisticsServiceClient(conn),
		Runs:          &Runs{evalv1.NewRunServiceClient(conn), transport},
		Providers:     &Providers{gatewayv1.NewProviderServiceClient(conn)},
		Keys:          &Keys{gatewayv1.NewAccessServiceClient(conn)},
		transport:     transport,
		encoding:      encoderv1.NewEncoderServiceClient(conn),
		transforming:  transformv1.NewTransformServiceClient(conn),
		augmentation:  transformv1.NewAugmentationServiceClient(conn),
		knownEncoders: map[string]*encoderv1.Encoder{},
	}
	if transport.settings.checkSpaces {
		made.spaces = &knownSpaces{spaces: map[string]VectorSpace{}}
	}
	return made, nil
}

// FromEnvironment makes a client of the server in ISOMER_SERVER, with the key in ISOMER_API_KEY, as
// the command line has it.
func FromEnvironment(options ...Option) (*Client, error) {
	address, more := environment()
	return Connect(address, append(more, options...)...)
}

// Close ends the connection. Calls in flight are cancelled.
func (c *Client) Close() error { return c.transport.conn.Close() }

// Conn is the connection, for generated stubs: calls through it have the client's key, deadlines,
// retries and errors.
func (c *Client) Conn() grpc.ClientConnInterface { return c.transport.conn }

// Encoders that can be asked for, loaded or not.
func (c *Client) Encoders(ctx context.Context) iter.Seq2[*encoderv1.Encoder, error] {
	return pages(func(token string) ([]*encoderv1.Encoder, string, error) {
		answer, err := c.encoding.ListEncoders(ctx, &encoderv1.ListEncodersRequest{PageToken: token})
		return answer.GetEncoders(), answer.GetNextPageToken(), err
	})
}

// Encoder describes one encoder; the server loads it if need be.
func (c *Client) Encoder(ctx context.Context, id string) (*encoderv1.Encoder, error) {
	answer, err := c.encoding.GetEncoder(ctx, &encoderv1.GetEncoderRequest{Id: id})
	if err != nil {
		return nil, err
	}
	c.encodersLock.Lock()
	defer c.encodersLock.Unlock()
	c.knownEncoders[id] = answer.GetEncoder()
	return answer.GetEncoder(), nil
}

// known describes an encoder; the description is cached.
func (c *Client) known(ctx context.Context, id string) (*encoderv1.Encoder, error) {
	c.encodersLock.Lock()
	found := c.knownEncoders[id]
	c.encodersLock.Unlock()
	if found != nil {
		return found, nil
	}
	return c.Encoder(ctx, id)
}

// Encode gives a vector for each of any number of texts, in their order.
func (c *Client) Encode(ctx context.Context, texts []string, options EncodeOptions) (*Embeddings, error) {
	return encode(ctx, c, texts, options, sizeOfText, inputOfText)
}

// EncodeTokenIDs is Encode for lists of token ids by the encoder's own tokenizer.
func (c *Client) EncodeTokenIDs(ctx context.Context, ids [][]uint32, options EncodeOptions) (*Embeddings, error) {
	return encode(ctx, c, ids, options, sizeOfIDs, inputOfIDs)
}

// EncodeStream gives vectors of texts that come from an iterator, in their order, a batch at a time.
// Texts are read only as far as requests are in flight, and each batch's vectors are a view of its
// answer: memory does not grow with the number of texts. Leaving the loop cancels what is in flight.
// After an error the stream is over.
func (c *Client) EncodeStream(ctx context.Context, texts iter.Seq[string], options EncodeOptions) iter.Seq2[*Embeddings, error] {
	if options.Priority == encoderv1.Priority_PRIORITY_UNSPECIFIED {
		options.Priority = encoderv1.Priority_PRIORITY_BATCH
	}
	return func(yield func(*Embeddings, error) bool) {
		asked, err := c.ask(ctx, &options, wanted{})
		if err != nil {
			yield(nil, err)
			return
		}
		for one, err := range parts(ctx, asked, texts, sizeOfText, inputOfText, asked.checker.embeddings) {
			if err == nil && !options.Partial {
				err = textsFailed(one.Errors, one)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(one, nil) {
				return
			}
		}
	}
}

// EncodeTokens gives a vector for each token of each text.
func (c *Client) EncodeTokens(ctx context.Context, texts []string, options EncodeOptions) (*TokenEmbeddings, error) {
	asked, err := c.ask(ctx, &options, wanted{tokens: true})
	if err != nil {
		return nil, err
	}
	made := &TokenEmbeddings{Space: spaceOf(asked.encoder.GetVectorSpace())}
	check := func(answer *encoderv1.EncodeResponse, start, count int) (*TokenEmbeddings, error) {
		matrices, space, err := asked.checker.tokens(answer, start, count)
		one := &TokenEmbeddings{Texts: matrices, Space: space}
		one.Usage.add(answer.GetUsage())
		return one, err
	}
	for one, err := range parts(ctx, asked, textsOf(texts), sizeOfText, inputOfText, check) {
		if err != nil {
			return nil, err
		}
		made.Texts = append(made.Texts, one.Texts...)
		made.Space = one.Space
		made.Usage.sum(one.Usage)
	}
	return made, nil
}

// asked is an encode call: what every request of it has in common.
type asked struct {
	client  *Client
	options *EncodeOptions
	encoder *encoderv1.Encoder
	prompt  prompt
	checker *checker
	wanted  wanted
}

func (c *Client) ask(ctx context.Context, options *EncodeOptions, wanted wanted) (*asked, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	encoder, err := c.known(ctx, options.Encoder)
	if err != nil {
		return nil, err
	}
	prompt, err := options.prompt(encoder)
	if err != nil {
		return nil, err
	}
	checker := &checker{options: options, question: options.question(prompt, wanted.tokens), known: c.spaces}
	return &asked{c, options, encoder, prompt, checker, wanted}, nil
}

func (c *Client) mostItems(encoder *encoderv1.Encoder) int {
	ours := c.transport.settings.batchItems
	if theirs := int(encoder.GetMaxBatchItems()); theirs > 0 {
		return min(ours, theirs)
	}
	return ours
}

// parts yields the checked answer to each request, in order.
func parts[T, R any](
	ctx context.Context, asked *asked, items iter.Seq[T], size func(T) int, input func(T, int) (*encoderv1.Input, error),
	check func(answer *encoderv1.EncodeResponse, start, count int) (R, error),
) iter.Seq2[R, error] {
	settings := asked.client.transport.settings
	work := func(ctx context.Context, batch batch[T]) (part[*encoderv1.EncodeResponse], error) {
		made := part[*encoderv1.EncodeResponse]{start: batch.start, count: len(batch.items)}
		inputs := make([]*encoderv1.Input, 0, len(batch.items))
		for place, item := range batch.items {
			one, err := input(item, batch.start+place)
			if err != nil {
				return made, err
			}
			inputs = append(inputs, one)
		}
		var err error
		made.answer, err = asked.client.encoding.Encode(ctx, asked.options.request(asked.prompt, inputs, asked.wanted))
		return made, moved(err, batch.start)
	}
	requests := batches(items, asked.client.mostItems(asked.encoder), settings.batchBytes, size)
	return func(yield func(R, error) bool) {
		for one, err := range ordered(ctx, requests, settings.inFlight, work) {
			var checked R
			if err == nil {
				checked, err = check(one.answer, one.start, one.count)
			}
			if !yield(checked, err) || err != nil {
				return
			}
		}
	}
}

func encode[T any](
	ctx context.Context, c *Client, items []T, options EncodeOptions, size func(T) int, input func(T, int) (*encoderv1.Input, error),
) (*Embeddings, error) {
	asked, err := c.ask(ctx, &options, wanted{})
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return emptyEmbeddings(asked.encoder, &options), nil
	}
	joiner := joiner{count: len(items)}
	for one, err := range parts(ctx, asked, values(items), size, input, asked.checker.embeddings) {
		if err == nil {
			err = joiner.add(one)
		}
		if err != nil {
			return nil, err
		}
	}
	if !options.Partial {
		if err := textsFailed(joiner.joined.Errors, joiner.joined); err != nil {
			return nil, err
		}
	}
	return joiner.joined, nil
}

// RerankOptions is everything of a rerank call but its texts.
type RerankOptions struct {
	// Encoder is the id of a cross-encoder.
	Encoder string
	// TopN is the maximum number of documents to return; 0: all.
	TopN int
	// Label of a cross-encoder with several.
	Label string
}

// Rerank scores any number of documents against a query by a cross-encoder, best first.
func (c *Client) Rerank(ctx context.Context, query string, documents []string, options RerankOptions) (*Ranking, error) {
	if options.TopN < 0 {
		return nil, invalid("top_n", "give 1 or more, or 0 for all", "TopN is %d", options.TopN)
	}
	encoder, err := c.known(ctx, options.Encoder)
	if err != nil {
		return nil, err
	}
	var topN *uint32
	if options.TopN > 0 {
		topN = Ptr(uint32(options.TopN))
	}
	work := func(ctx context.Context, batch batch[string]) (part[*encoderv1.RerankResponse], error) {
		made := part[*encoderv1.RerankResponse]{start: batch.start, count: len(batch.items)}
		for place, text := range batch.items {
			if err := checkText(text, "documents", batch.start+place); err != nil {
				return made, err
			}
		}
		var err error
		made.answer, err = c.encoding.Rerank(ctx, &encoderv1.RerankRequest{
			EncoderId: options.Encoder, Query: query, Documents: batch.items, TopN: topN, Label: options.Label,
		})
		return made, moved(err, batch.start)
	}
	settings := c.transport.settings
	requests := batches(textsOf(documents), c.mostItems(encoder), settings.batchBytes, sizeOfText)
	var found []part[*encoderv1.RerankResponse]
	for one, err := range ordered(ctx, requests, settings.inFlight, work) {
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return ranking(found, options.TopN), nil
}

// CountTokens has the tokens of each text as Encode would see them, before truncation.
func (c *Client) CountTokens(ctx context.Context, texts []string, options EncodeOptions) ([]uint32, error) {
	request := &encoderv1.CountTokensRequest{EncoderId: options.Encoder, Texts: texts}
	if options.PromptName != "" {
		request.Prompt = &encoderv1.CountTokensRequest_PromptName{PromptName: options.PromptName}
	} else if options.Prompt != nil {
		request.Prompt = &encoderv1.CountTokensRequest_LiteralPrompt{LiteralPrompt: *options.Prompt}
	}
	answer, err := c.encoding.CountTokens(ctx, request)
	return answer.GetTokenCounts(), err
}

// Tokenize has the tokens of each text, with the part of the text that each stands for.
func (c *Client) Tokenize(ctx context.Context, request *encoderv1.TokenizeRequest) ([][]*encoderv1.Token, error) {
	answer, err := c.encoding.Tokenize(ctx, request)
	if err != nil {
		return nil, err
	}
	made := make([][]*encoderv1.Token, 0, len(answer.GetTexts()))
	for _, text := range answer.GetTexts() {
		made = append(made, text.GetTokens())
	}
	return made, nil
}

// Detokenize has the text of each list of token ids.
func (c *Client) Detokenize(ctx context.Context, request *encoderv1.DetokenizeRequest) ([]string, error) {
	answer, err := c.encoding.Detokenize(ctx, request)
	return answer.GetTexts(), err
}
