//! The model's own thread: takes requests from the queue, runs the batch's steps, sends answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Instant,
};

use futures::channel::oneshot;

use crate::{
    ChatMessage, GenerateRequest, Generation, LocalError,
    batch::{Batch, Limits, QueuedRequest},
    decoder::Decoder,
    output::Output,
    sampling::Sampler,
    template::{ChatTemplate, Prompt, plain_prompt},
    vocabulary::Vocabulary,
};

pub(crate) type Reply = oneshot::Sender<Result<Generation, LocalError>>;

/// A request in the queue.
pub(crate) struct Job {
    pub(crate) request: GenerateRequest,
    pub(crate) reply: Reply,
}

/// Everything that the thread owns.
pub(crate) struct Worker {
    pub(crate) decoder: Decoder,
    pub(crate) vocabulary: Vocabulary,
    pub(crate) template: Option<ChatTemplate>,
    pub(crate) limits: Limits,
    /// Maximum number of tokens of prompt and answer together.
    pub(crate) context: usize,
    /// Number of requests without a place in the batch.
    pub(crate) queued: Arc<AtomicUsize>,
}

impl Worker {
    /// Runs until every handle is dropped and all answers are sent or cancelled.
    pub(crate) fn run(self, jobs: mpsc::Receiver<Job>) {
        let mut batch = Batch::new(self.limits);
        let mut busy: Option<(Instant, u64)> = None;
        let mut open = true;
        while open || !batch.is_idle() {
            if batch.is_idle() {
                if let Some((since, rows)) = busy.take() {
                    let seconds = since.elapsed().as_secs_f64();
                    tracing::debug!(rows = batch.rows() - rows, seconds, "local model idle again");
                }
                match jobs.recv() {
                    Ok(job) => self.accept(job, &mut batch),
                    Err(mpsc::RecvError) => return,
                }
            }
            loop {
                match jobs.try_recv() {
                    Ok(job) => self.accept(job, &mut batch),
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => {
                        open = false;
                        break;
                    }
                }
            }
            busy.get_or_insert_with(|| (Instant::now(), batch.rows()));
            let before = batch.waiting();
            batch.drop_cancelled(Reply::is_canceled);
            let done = batch.step(&self.decoder, &self.vocabulary);
            self.queued.fetch_sub(before - batch.waiting(), Ordering::Relaxed);
            for (reply, generated) in done {
                // The caller may have disconnected in the meantime.
                let _ = reply.send(Ok(generated));
            }
        }
    }

    fn accept(&self, job: Job, batch: &mut Batch<Reply>) {
        let Job { request, reply } = job;
        if reply.is_canceled() {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        match self.prompt(&request) {
            Ok(prompt) => batch.push(QueuedRequest {
                prompt,
                max_tokens: request.max_tokens,
                sampler: Sampler::new(request.temperature, request.top_p, request.seed).among(request.top_k),
                output: Output::new(request.stop),
                reply,
            }),
            Err(error) => {
                self.queued.fetch_sub(1, Ordering::Relaxed);
                let _ = reply.send(Err(error));
            }
        }
    }

    fn prompt(&self, request: &GenerateRequest) -> Result<Vec<u32>, LocalError> {
        let ids = tokens_of(&request.messages, self.template.as_ref(), &self.vocabulary)?;
        if ids.len() + request.max_tokens > self.context {
            return Err(LocalError::ContextLength {
                prompt_tokens: ids.len(),
                max_tokens: request.max_tokens,
                limit: self.context,
            });
        }
        Ok(ids)
    }
}

/// Tokens of the prompt for these messages. Control tokens are recognised only where the template
/// writes them, not inside a message.
pub(crate) fn tokens_of(
    messages: &[ChatMessage],
    template: Option<&ChatTemplate>,
    vocabulary: &Vocabulary,
) -> Result<Vec<u32>, LocalError> {
    let continues = messages.iter().all(|message| message.role == ChatMessage::TEXT);
    let ids = match template.filter(|_| !continues) {
        Some(template) => {
            let Prompt { text, guard } = template.render(messages)?;
            vocabulary.encode(&text, Some(guard))?
        }
        None => vocabulary.encode_harmless(&plain_prompt(messages))?,
    };
    if ids.is_empty() {
        return Err(LocalError::Invalid {
            field: "messages",
            message: "they make an empty prompt; give a text to work on".to_owned(),
        });
    }
    Ok(ids)
}
