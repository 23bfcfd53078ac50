//! `--prompt`: the text in front of an encoder's inputs.

use clap::Args;
use isomer_proto::eval::v1::EncoderPrompt;

use crate::exit::Failure;
use crate::heading;

/// Prompts of encoders.
#[derive(Args, Debug)]
#[command(next_help_heading = heading::ENCODERS)]
pub(crate) struct PromptArgs {
    /// A text put in front of the encoder's inputs of one role, e.g. `query=query: `; repeat for
    /// several. A role is a part of retrieval and reranking (query; document, also passage), a task
    /// type (sts), a data set's name, or one of the last two with a part (retrieval-query).
    /// `ROLE@ID=TEXT` is for one encoder of several; an empty text is not a prompt [default: the
    /// suite's (check only), else the encoder's own prompt of that role, else its default].
    #[arg(long = "prompt", env = "ISOMER_ENCODER_PROMPT", value_name = "ROLE[@ID]=TEXT", value_parser = prompt)]
    prompts: Vec<EncoderPrompt>,
}

impl PromptArgs {
    /// All prompts, each for its encoder's name on the server, which `named` gives.
    ///
    /// # Errors
    /// If a prompt is for an encoder that is not among `encoders`.
    pub(crate) fn all(&self, encoders: &[&str], named: impl Fn(&str) -> String) -> Result<Vec<EncoderPrompt>, Failure> {
        let one = |prompt: &EncoderPrompt| {
            let id = prompt.encoder_id.as_str();
            if !id.is_empty() && !encoders.contains(&id) {
                return Err(Failure::usage(format!(
                    "--prompt: `{id}` is none of the encoders: {}",
                    encoders.join(", ")
                )));
            }
            Ok(EncoderPrompt {
                encoder_id: if id.is_empty() { String::new() } else { named(id) },
                ..prompt.clone()
            })
        };
        self.prompts.iter().map(one).collect()
    }
}

/// Reads `ROLE[@ID]=TEXT`; the text may hold anything.
fn prompt(text: &str) -> Result<EncoderPrompt, String> {
    let Some((whose, text)) = text.split_once('=') else {
        return Err("has no `=`; write ROLE=TEXT, e.g. \"query=query: \"".to_owned());
    };
    let (role, encoder) = whose.split_once('@').unwrap_or((whose, ""));
    if role.trim().is_empty() || (whose.contains('@') && encoder.is_empty()) {
        return Err("names no role or no encoder; write ROLE=TEXT or ROLE@ID=TEXT".to_owned());
    }
    Ok(EncoderPrompt {
        role: role.trim().to_owned(),
        text: text.to_owned(),
        encoder_id: encoder.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_prompt_is_read_to_the_last_space() {
        let of = |role: &str, text: &str, encoder_id: &str| EncoderPrompt {
            role: role.to_owned(),
            text: text.to_owned(),
            encoder_id: encoder_id.to_owned(),
        };
        assert_eq!(prompt("query=query: "), Ok(of("query", "query: ", "")));
        assert_eq!(prompt("sts=a = b@c"), Ok(of("sts", "a = b@c", "")));
        assert_eq!(prompt("document="), Ok(of("document", "", "")));
        assert_eq!(
            prompt("query@org/e5=Instruct: x\nQuery:"),
            Ok(of("query", "Instruct: x\nQuery:", "org/e5"))
        );
        for wrong in ["query", "=x", "@e5=x", "query@=x"] {
            assert!(prompt(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_prompt_for_an_encoder_that_is_not_there_is_refused() {
        let args = PromptArgs {
            prompts: vec![prompt("query@b=x").unwrap()],
        };
        assert!(args.all(&["a"], str::to_owned).is_err());
        assert_eq!(
            args.all(&["a", "b"], |id| format!("/{id}")).unwrap()[0].encoder_id,
            "/b"
        );
    }
}
