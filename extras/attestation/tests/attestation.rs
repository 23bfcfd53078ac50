//! Attestations hold for what was checked and for nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{fs, path::Path};

use isomer_attestation::{
    Envelope, KeyError, Outcome, PrivateKey, PublicKey, Statement, StatementError, VerifyError, statements, verify,
};
use isomer_report::{GateVerdict, Report};

fn file(name: &str) -> String {
    let path = Path::new(".").join("tests/keys").join(name);
    fs::read_to_string(path).unwrap()
}

/// A report whose gate judges four encoders: undecided, kept, broken, kept.
fn report() -> (Report, Vec<u8>) {
    let path = Path::new(".").join("../../eval-svc/fixtures/report/report.json");
    let json = fs::read(path).unwrap();
    (isomer_report::read(&json).unwrap(), json)
}

fn changed(change: impl FnOnce(&mut Report)) -> (Report, Vec<u8>) {
    let (mut report, _) = report();
    change(&mut report);
    let json = serde_json::to_vec(&report).unwrap();
    (report, json)
}

fn signed(statement: &Statement, key: &PrivateKey) -> Vec<u8> {
    let envelope = Envelope::sign(&serde_json::to_vec(statement).unwrap(), key).unwrap();
    serde_json::to_vec(&envelope).unwrap()
}

#[test]
fn each_encoder_has_a_statement_with_what_its_rules_came_to() {
    let (report, json) = report();
    let all = statements(&report, &json).unwrap();
    let said: Vec<(&str, Outcome, [usize; 3])> = all
        .iter()
        .map(|(id, statement)| {
            let test = &statement.predicate;
            let counts = [&test.passed_tests, &test.warned_tests, &test.failed_tests].map(Vec::len);
            (id.as_str(), test.result, counts)
        })
        .collect();
    assert_eq!(
        said,
        [
            ("all-MiniLM-L6-v2", Outcome::Warned, [1, 1, 0]),
            ("paraphrase-MiniLM-L3-v2", Outcome::Passed, [2, 0, 0]),
            ("all-mpnet-base-v2", Outcome::Failed, [1, 0, 1]),
            ("multilingual-e5-small", Outcome::Passed, [2, 0, 0]),
        ]
    );
    for ((id, statement), encoder) in all.iter().zip(&report.encoders) {
        assert_eq!((&statement.subject[0].name, id), (&encoder.id, &encoder.id));
        assert_eq!(statement.subject[0].digest["sha256"], encoder.weights_digest);
        assert_eq!(statement.subject[1].name, "report.json");
        let value = serde_json::to_value(statement).unwrap();
        assert_eq!(value["_type"], "https://in-toto.io/Statement/v1");
        assert_eq!(
            value["predicateType"],
            "https://in-toto.io/attestation/test-result/v0.1"
        );
        assert!(value["predicate"]["passedTests"].is_array());
        assert!(value["predicate"]["configuration"].as_array().unwrap().len() > 2);
    }
}

#[test]
fn an_attestation_of_either_kind_of_key_holds_and_no_other_key_verifies_it() {
    let (report, json) = report();
    for kind in ["ecdsa", "ed25519"] {
        let key = PrivateKey::from_pem(&file(&format!("{kind}.pem"))).unwrap();
        let public = PublicKey::from_pem(&file(&format!("{kind}.pub"))).unwrap();
        assert_eq!(key.public(), public, "what OpenSSL derives");
        assert_eq!(public.to_pem(), file(&format!("{kind}.pub")));
        let others = ["ecdsa.pub", "ed25519.pub"].map(|name| PublicKey::from_pem(&file(name)).unwrap());
        for (id, statement) in statements(&report, &json).unwrap() {
            let envelope = signed(&statement, &key);
            let verified = verify(&envelope, &public, &json).unwrap();
            assert_eq!((verified.encoder, verified.result), (id, statement.predicate.result));
            for other in others.iter().filter(|other| **other != public) {
                let error = verify(&envelope, other, &json).unwrap_err();
                assert!(
                    matches!(&error, VerifyError::Signature(keys) if *keys == [public.id()]),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn files_are_signed_and_leave_what_follows_from_the_report_alone() {
    let (report, json) = report();
    let key = PrivateKey::from_pem(&file("ecdsa.pem")).unwrap();
    let (_, statement) = statements(&report, &json).unwrap().swap_remove(1);
    assert!(statement.files().is_empty());
    let files = [("1_Pooling/config.json", 'a'), ("tokenizer.json", 'b')];
    let files = files
        .map(|(path, digit)| (path.to_owned(), digit.to_string().repeat(64)))
        .into();
    let statement = statement
        .with_files(&files)
        .with_artifact("registry.example.com/enc", &"c".repeat(64));
    let envelope = signed(&statement, &key);
    let verified = verify(&envelope, &key.public(), &json).unwrap();
    assert_eq!((verified.statement.files(), verified.artifacts.len()), (files, 1));
    // Another digest under the same signature.
    let mut forged: Envelope = serde_json::from_slice(&envelope).unwrap();
    let other = signed(
        &statement.with_files(&[("tokenizer.json".to_owned(), "d".repeat(64))].into()),
        &key,
    );
    forged.payload = serde_json::from_slice::<Envelope>(&other).unwrap().payload;
    let error = verify(&serde_json::to_vec(&forged).unwrap(), &key.public(), &json).unwrap_err();
    assert!(matches!(error, VerifyError::Signature(_)), "{error}");
}

#[test]
fn what_was_changed_after_it_was_signed_does_not_hold() {
    let (report, json) = report();
    let key = PrivateKey::from_pem(&file("ecdsa.pem")).unwrap();
    let (_, broken) = statements(&report, &json).unwrap().swap_remove(2);
    let envelope = signed(&broken, &key);
    assert!(verify(&envelope, &key.public(), &json).is_ok());

    // Another result under the same signature.
    let mut better = broken.clone();
    better.predicate.result = Outcome::Passed;
    let mut forged: Envelope = serde_json::from_slice(&signed(&better, &key)).unwrap();
    forged.signatures = serde_json::from_slice::<Envelope>(&envelope).unwrap().signatures;
    let error = verify(&serde_json::to_vec(&forged).unwrap(), &key.public(), &json).unwrap_err();
    assert!(matches!(error, VerifyError::Signature(_)), "{error}");

    // The payload as another type, which is part of what is signed.
    let mut other: Envelope = serde_json::from_slice(&envelope).unwrap();
    other.payload_type = "application/json".to_owned();
    assert!(other.opened(&key.public()).is_none());

    // One byte of the report, and white space at its end.
    for change in [
        String::from_utf8(json.clone()).unwrap().replacen("750", "751", 1),
        format!("{}\n", String::from_utf8(json.clone()).unwrap()),
    ] {
        let error = verify(&envelope, &key.public(), change.as_bytes()).unwrap_err();
        assert!(matches!(error, VerifyError::Differs(_)), "{error}");
    }
}

#[test]
fn what_was_signed_without_following_from_the_report_does_not_hold() {
    let (report, json) = report();
    let key = PrivateKey::from_pem(&file("ed25519.pem")).unwrap();
    let all = statements(&report, &json).unwrap();
    let (_, broken) = &all[2];
    let refused = |change: &dyn Fn(&mut Statement)| {
        let mut statement = broken.clone();
        change(&mut statement);
        let error = verify(&signed(&statement, &key), &key.public(), &json).unwrap_err();
        assert!(
            matches!(error, VerifyError::Differs(_) | VerifyError::Statement(_)),
            "{error}"
        );
    };
    assert!(verify(&signed(broken, &key), &key.public(), &json).is_ok());
    refused(&|statement| statement.predicate.result = Outcome::Passed);
    refused(&|statement| statement.predicate.failed_tests.clear());
    refused(&|statement| statement.subject[0].name = "all-MiniLM-L6-v2".to_owned());
    refused(&|statement| {
        statement.subject[0].digest.insert("sha256".to_owned(), "00".repeat(32));
    });
    refused(&|statement| statement.subject.clear());
    refused(&|statement| statement.predicate_type = "https://slsa.dev/provenance/v1".to_owned());
    // The weights of one with the result of another.
    refused(&|statement| statement.predicate = all[1].1.predicate.clone());
}

#[test]
fn what_cannot_be_attested_is_refused_with_what_to_do() {
    let (report, json) = changed(|report| report.gate = None);
    assert_eq!(statements(&report, &json).unwrap_err(), StatementError::NoGate);
    let (report, json) = changed(|report| {
        let gate = report.gate.as_mut().unwrap();
        gate.rules.clear();
        gate.encoders.iter_mut().for_each(|encoder| encoder.rules.clear());
    });
    assert_eq!(statements(&report, &json).unwrap_err(), StatementError::NoGate);
    for digest in ["", "unknown", &"AB".repeat(32), &"ab".repeat(31)] {
        let (report, json) = changed(|report| report.encoders[1].weights_digest = digest.to_owned());
        let error = statements(&report, &json).unwrap_err();
        assert_eq!(error, StatementError::NoDigest("paraphrase-MiniLM-L3-v2".to_owned()));
    }
    // Verdicts that are missing are not kept rules.
    let (report, json) = changed(|report| {
        report.gate.as_mut().unwrap().encoders[1].rules.pop();
    });
    let error = statements(&report, &json).unwrap_err();
    assert!(matches!(error, StatementError::Inconsistent(_)), "{error}");
}

#[test]
fn the_worst_of_the_rules_and_of_the_encoder_is_the_result() {
    use GateVerdict::{Fail, Invalid, Pass, Undecided};
    for (rules, whole, expected) in [
        ([Pass, Pass], Pass, Outcome::Passed),
        ([Pass, Undecided], Undecided, Outcome::Warned),
        ([Pass, Invalid], Invalid, Outcome::Failed),
        ([Undecided, Fail], Fail, Outcome::Failed),
        // A report whose verdict on the encoder contradicts its rules.
        ([Pass, Fail], Pass, Outcome::Failed),
        ([Pass, Pass], Invalid, Outcome::Failed),
        ([Pass, Pass], Undecided, Outcome::Warned),
    ] {
        let (report, json) = changed(|report| {
            let encoder = &mut report.gate.as_mut().unwrap().encoders[1];
            encoder.verdict = whole;
            encoder
                .rules
                .iter_mut()
                .zip(rules)
                .for_each(|(rule, verdict)| rule.verdict = verdict);
        });
        let (_, statement) = &statements(&report, &json).unwrap()[1];
        assert_eq!(statement.predicate.result, expected, "{rules:?} {whole:?}");
    }
}

#[test]
fn rules_of_one_title_are_told_apart() {
    let (report, json) = changed(|report| {
        let rules = &mut report.gate.as_mut().unwrap().rules;
        rules[1].title = rules[0].title.clone();
    });
    let (_, statement) = &statements(&report, &json).unwrap()[1];
    let [first, second] = &statement.predicate.passed_tests[..] else {
        panic!("{:?}", statement.predicate.passed_tests)
    };
    assert_ne!(first, second);
}

#[test]
fn keys_of_other_kinds_are_refused_with_what_to_do() {
    let private = |name: &str| PrivateKey::from_pem(&file(name)).unwrap_err();
    assert_eq!(private("encrypted.pem"), KeyError::Encrypted);
    assert!(private("sec1.pem").to_string().contains("openssl pkcs8"));
    assert!(matches!(private("p384.pem"), KeyError::Kind(_)));
    assert!(matches!(private("ecdsa.pub"), KeyError::NotPem { .. }));
    let public = |name: &str| PublicKey::from_pem(&file(name)).unwrap_err();
    assert!(matches!(public("p384.pub"), KeyError::Kind(_)));
    assert!(matches!(public("ecdsa.pem"), KeyError::NotPem { .. }));
    assert!(matches!(PublicKey::from_pem("").unwrap_err(), KeyError::NotPem { .. }));
    let debug = format!("{:?}", PrivateKey::from_pem(&file("ecdsa.pem")).unwrap());
    let secret: String = file("ecdsa.pem").lines().nth(1).unwrap().chars().take(24).collect();
    assert!(!debug.contains(&secret));
}

#[test]
fn an_attestation_may_name_an_artifact_and_stand_in_a_bundle() {
    let (report, json) = report();
    let key = PrivateKey::from_pem(&file("ecdsa.pem")).unwrap();
    let (id, statement) = statements(&report, &json).unwrap().swap_remove(1);
    let digest = "ab".repeat(32);
    let named = statement.clone().with_artifact("r.io/enc", &digest);
    let envelope: Envelope = serde_json::from_slice(&signed(&named, &key)).unwrap();
    let bundle = envelope.bundle(&key.public()).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&bundle).unwrap();
    assert_eq!(value["mediaType"], isomer_attestation::BUNDLE_TYPE);
    assert_eq!(value["verificationMaterial"]["publicKey"]["hint"], key.public().id());
    for form in [serde_json::to_vec(&envelope).unwrap(), bundle] {
        let verified = verify(&form, &key.public(), &json).unwrap();
        assert_eq!(verified.encoder, id);
        assert_eq!(verified.artifacts.len(), 1);
        assert_eq!(verified.artifacts[0].digest["sha256"], digest);
    }
    assert!(
        verify(&signed(&statement, &key), &key.public(), &json)
            .unwrap()
            .artifacts
            .is_empty()
    );
    // An artifact in the place of the weights or the report.
    for place in [0, 1] {
        let mut moved = named.clone();
        moved.subject.swap(place, 2);
        assert!(verify(&signed(&moved, &key), &key.public(), &json).is_err(), "{place}");
    }
    let mut without = named;
    without.subject.remove(1);
    let error = verify(&signed(&without, &key), &key.public(), &json).unwrap_err();
    assert!(matches!(error, VerifyError::Differs(_)), "{error}");
}
