//! The handle: loading, queueing, cancelling.

use std::{
    future::Future,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Instant,
};

use futures::channel::oneshot;

use crate::{
    Arithmetic, GenerateRequest, Generation, LocalError,
    batch::Limits,
    decoder::Decoder,
    gguf::GgufFile,
    shape::Shape,
    template::ChatTemplate,
    vocabulary::Vocabulary,
    worker::{Job, Worker},
};

/// Options of running a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadOptions {
    /// Number of computing threads; 0 means one per core.
    pub threads: usize,
    /// Number of sequences decoded at once, at least 1. A larger number is faster in total and
    /// slower for each sequence.
    pub max_batch: usize,
    /// Maximum number of tokens of prompt and answer together; never more than the model was
    /// trained for.
    pub context: usize,
    /// Number of requests that may wait for a place in the batch, at least 1. Further requests are
    /// refused with [`LocalError::QueueFull`].
    pub queue: usize,
    /// The arithmetic of quantised layers.
    pub arithmetic: Arithmetic,
    /// Whether a prefix that prompts share (instructions, examples) is computed once. The texts are
    /// the same either way, bit for bit; without reuse each prompt is processed from its first
    /// token.
    pub reuse_prefixes: bool,
    /// Maximum number of rows of a step that also runs guesses at the following tokens, copied from
    /// the prompt and the answer; 0: no guesses. The texts are the same either way, bit for bit.
    /// With guesses, a few sequences are answered faster, but a large number is not.
    pub guessing_rows: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            max_batch: 32,
            context: 4096,
            queue: 4096,
            arithmetic: Arithmetic::default(),
            reuse_prefixes: true,
            guessing_rows: GUESSING_ROWS,
        }
    }
}

/// Up to this number of rows, reading the weights dominates the time of a step.
const GUESSING_ROWS: usize = 16;

/// Number of rows of one step. It is large enough that loading a layer's weights costs little
/// compared with using them, and small enough that answers in flight do not wait long for new
/// prompts.
const STEP_ROWS: usize = 256;

/// A loaded model. Clones share it; when the last one is dropped, its thread ends.
#[derive(Debug, Clone)]
pub struct LocalModel {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    jobs: mpsc::Sender<Job>,
    queued: Arc<AtomicUsize>,
    queue: usize,
    architecture: &'static str,
    chat: bool,
    context: usize,
}

impl LocalModel {
    /// Reads a GGUF file and starts the model's thread. This takes seconds and much memory
    /// bandwidth, so call it off the async runtime.
    ///
    /// # Errors
    /// If the file is unreadable, incomplete, or of an unsupported architecture, tokenizer or type
    /// (the error names the key or tensor), or if an option is out of range.
    pub fn load(path: &Path, options: LoadOptions) -> Result<Self, LocalError> {
        for (field, value) in [
            ("max_batch", options.max_batch),
            ("context", options.context),
            ("queue", options.queue),
        ] {
            if value == 0 {
                return Err(LocalError::Invalid {
                    field,
                    message: "0; give at least 1".to_owned(),
                });
            }
        }
        let start = Instant::now();
        let file = GgufFile::open(path)?;
        let shape = Shape::read(&file)?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads)
            .thread_name(|index| format!("isomer-llm-{index}"))
            .build()
            .map_err(|e| LocalError::Threads(e.to_string()))?;
        let vocabulary = Vocabulary::read(&file)?;
        let template = match file.find_text("tokenizer.chat_template")? {
            Some(source) => Some(ChatTemplate::parse(source, &vocabulary)?),
            None => None,
        };
        let (architecture, context) = (shape.architecture.name(), shape.context.min(options.context));
        let tokens = vocabulary.len();
        let decoder = pool.install(|| Decoder::new(file, shape, tokens, options.arithmetic))?;

        let (jobs, receiver) = mpsc::channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let handle = Handle {
            jobs,
            queued: Arc::clone(&queued),
            queue: options.queue,
            architecture,
            chat: template.is_some(),
            context,
        };
        let worker = Worker {
            decoder,
            vocabulary,
            template,
            limits: Limits {
                sequences: options.max_batch,
                rows: STEP_ROWS.max(options.max_batch),
                reuse: options.reuse_prefixes,
                guessing: options.guessing_rows,
            },
            context,
            queued,
        };
        let threads = pool.current_num_threads();
        std::thread::Builder::new()
            .name("isomer-llm".to_owned())
            .spawn(move || pool.install(move || worker.run(receiver)))
            .map_err(|e| LocalError::Threads(e.to_string()))?;
        tracing::info!(
            path = %path.display(),
            architecture,
            threads,
            seconds = start.elapsed().as_secs_f64(),
            "local model loaded"
        );
        Ok(Self {
            handle: Arc::new(handle),
        })
    }

    /// The architecture named in the file: `llama`, `qwen2`, `qwen3` or `gemma3`.
    pub fn architecture(&self) -> &str {
        self.handle.architecture
    }

    /// Whether the file has a chat template. A model without one is not an assistant: it continues
    /// the given text.
    pub fn is_chat(&self) -> bool {
        self.handle.chat
    }

    /// Maximum number of tokens of prompt and answer together.
    pub fn context(&self) -> usize {
        self.handle.context
    }

    /// Queues a request and waits for its answer. The request is queued by the call itself, not by
    /// the first poll, so that requests made together are decoded together. Dropping the future
    /// cancels the request between two steps.
    ///
    /// # Errors
    /// [`LocalError::Invalid`], [`LocalError::ContextLength`] and [`LocalError::Template`] for the
    /// request; [`LocalError::QueueFull`] if too many requests wait; [`LocalError::Stopped`] if the
    /// thread has ended.
    pub fn generate(
        &self,
        request: GenerateRequest,
    ) -> impl Future<Output = Result<Generation, LocalError>> + Send + 'static + use<> {
        let queued = self.enqueue(request);
        async move { queued?.await.map_err(|oneshot::Canceled| LocalError::Stopped)? }
    }

    fn enqueue(
        &self,
        request: GenerateRequest,
    ) -> Result<oneshot::Receiver<Result<Generation, LocalError>>, LocalError> {
        request.validate()?;
        let Handle {
            jobs, queued, queue, ..
        } = &*self.handle;
        let take_place = |waiting: usize| (waiting < *queue).then_some(waiting + 1);
        if queued
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_place)
            .is_err()
        {
            return Err(LocalError::QueueFull { limit: *queue });
        }
        let (reply, answer) = oneshot::channel();
        jobs.send(Job { request, reply }).map_err(|_| LocalError::Stopped)?;
        Ok(answer)
    }
}
