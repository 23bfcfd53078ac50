//! Tests a provider whose model is replaced at the same address: the vectors of both models never
//! meet in one answer.

use super::*;

/// A fake that does not report its weights, like most APIs.
fn silent(weights: u32) -> Arc<Fake> {
    let fake = Fake::new(weights);
    fake.set(|manner| manner.tells = false);
    fake
}

/// A configuration that takes a first fingerprint soon after the first request.
fn compared() -> RoutingConfig {
    RoutingConfig {
        probe_interval_seconds: 3600,
        ..with_cache()
    }
}

async fn given(scene: &Scene, texts: &[&str]) -> Result<Vec<[f32; 2]>, Fault> {
    let answer = scene.router.encode(request(texts), &COMMON, None).await;
    answer.map(|answer| rows(&answer.response))
}

fn of(weights: u32, texts: &[&str]) -> Vec<[f32; 2]> {
    texts.iter().map(|text| vector(weights, text)).collect()
}

fn assert_refused(outcome: Result<Vec<[f32; 2]>, Fault>) {
    let fault = outcome.unwrap_err();
    assert_eq!(
        (fault.code, fault.reason.as_str()),
        (Code::FailedPrecondition, "OTHER_SPACE"),
        "{fault}"
    );
}

fn texts(fake: &Fake) -> usize {
    fake.texts.load(Ordering::SeqCst)
}

/// Events that may accompany the replacement of a provider.
#[derive(Debug, Clone, Copy)]
enum Outage {
    Unnoticed,
    HealthCheck,
    Connection,
    Ejected,
}

const OUTAGES: [Outage; 4] = [
    Outage::Unnoticed,
    Outage::HealthCheck,
    Outage::Connection,
    Outage::Ejected,
];

/// Replaces the model of a provider by the one with `weights`.
async fn replace(scene: &Scene, fake: &Fake, weights: u32, outage: Outage) {
    match outage {
        Outage::Unnoticed => {}
        Outage::HealthCheck => {
            fake.set(|manner| manner.sick = true);
            sleep(Duration::from_millis(60)).await;
        }
        Outage::Connection => {
            fake.set(|manner| manner.fails = Some(Code::Unavailable));
            given(scene, &["in the outage"]).await.unwrap_err();
        }
        Outage::Ejected => {
            fake.set(|manner| manner.fails = Some(Code::Unavailable));
            for _ in 0..3 {
                given(scene, &["in the outage"]).await.unwrap_err();
            }
        }
    }
    fake.set(|manner| {
        manner.weights = weights;
        manner.fails = None;
        manner.sick = false;
    });
    sleep(Duration::from_millis(200)).await;
}

#[tokio::test(start_paused = true)]
async fn kept_vectors_and_those_of_another_model_never_meet() {
    for outage in OUTAGES {
        let fake = silent(1);
        let scene = scene(with_cache(), &[("a", &fake)]).await;
        given(&scene, &["a"]).await.unwrap();
        replace(&scene, &fake, 2, outage).await;
        let both = ["a", "four"];
        assert_eq!(given(&scene, &both).await.unwrap(), of(2, &both), "{outage:?}");
        // The earlier vector is no longer cached.
        assert_eq!(given(&scene, &["a"]).await.unwrap(), of(2, &["a"]), "{outage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_past_the_cache_is_computed_again() {
    let fake = silent(1);
    let scene = scene(with_cache(), &[("a", &fake)]).await;
    let again = EncodeRequest {
        bypass_cache: true,
        ..request(&["a"])
    };
    for expected in [1, 2] {
        fake.set(|manner| manner.weights = expected);
        let before = texts(&fake);
        let answer = scene.router.encode(again.clone(), &COMMON, None).await.unwrap();
        assert_eq!(rows(&answer.response), of(expected, &["a"]));
        assert_eq!(answer.response.usage.unwrap().cached_texts, 0);
        assert_eq!(texts(&fake), before + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_was_out_is_compared_with_its_first_vectors_before_it_answers() {
    for outage in OUTAGES {
        let fake = silent(1);
        let scene = scene(compared(), &[("a", &fake)]).await;
        given(&scene, &["a"]).await.unwrap();
        sleep(Duration::from_millis(200)).await;
        replace(&scene, &fake, 2, outage).await;
        assert_refused(given(&scene, &["a", "four"]).await);
        assert_refused(given(&scene, &["four"]).await);
        match outage {
            // The cached vector differed from a new one.
            Outage::Unnoticed => assert_refused(given(&scene, &["a"]).await),
            // An answer with only vectors of the earlier model is still right.
            _ => assert_eq!(given(&scene, &["a"]).await.unwrap(), of(1, &["a"])),
        }
        // An update is consent, and earlier cached vectors are gone.
        let mut changed = provider("a", "e");
        changed.etag = "2".to_owned();
        scene.registry.send(vec![changed].into()).unwrap();
        sleep(Duration::from_millis(200)).await;
        let both = ["a", "four"];
        assert_eq!(given(&scene, &both).await.unwrap(), of(2, &both), "{outage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_new_text_after_an_outage_is_compared_too() {
    for outage in [Outage::HealthCheck, Outage::Connection, Outage::Ejected] {
        let fake = silent(1);
        let config = RoutingConfig {
            cache_bytes: 0,
            ..compared()
        };
        let scene = scene(config, &[("a", &fake)]).await;
        given(&scene, &["a"]).await.unwrap();
        sleep(Duration::from_millis(200)).await;
        replace(&scene, &fake, 2, outage).await;
        assert_refused(given(&scene, &["four"]).await);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_model_started_again_is_no_alarm_and_its_vectors_stay() {
    for outage in OUTAGES {
        let fake = silent(1);
        let scene = scene(compared(), &[("a", &fake)]).await;
        given(&scene, &["a", "bb"]).await.unwrap();
        sleep(Duration::from_millis(200)).await;
        replace(&scene, &fake, 1, outage).await;
        assert_eq!(given(&scene, &["four"]).await.unwrap(), of(1, &["four"]));
        let before = texts(&fake);
        assert_eq!(given(&scene, &["a", "bb"]).await.unwrap(), of(1, &["a", "bb"]));
        assert_eq!(texts(&fake), before, "{outage:?}: both are kept");
        assert!(scene.router.refusals().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn vectors_kept_from_two_models_never_meet() {
    let fake = silent(1);
    let scene = scene(with_cache(), &[("a", &fake)]).await;
    given(&scene, &["a"]).await.unwrap();
    replace(&scene, &fake, 2, Outage::Unnoticed).await;
    given(&scene, &["four"]).await.unwrap();
    for both in [["a", "four"], ["four", "a"]] {
        assert_eq!(given(&scene, &both).await.unwrap(), of(2, &both));
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_replaced_while_requests_are_in_flight_is_noticed() {
    let fake = silent(1);
    fake.set(|manner| manner.takes = Duration::from_millis(100));
    let scene = scene(with_cache(), &[("a", &fake)]).await;
    let both = ["a", "four"];
    let swapped = async {
        sleep(Duration::from_millis(20)).await;
        fake.set(|manner| {
            manner.weights = 2;
            manner.takes = Duration::from_millis(10);
        });
        // It waits for the vector of the previous request, which the earlier model finishes.
        given(&scene, &both).await.unwrap()
    };
    let (_, joined) = tokio::join!(given(&scene, &["a"]), swapped);
    assert_eq!(joined, of(2, &both));
    assert_eq!(given(&scene, &both).await.unwrap(), of(2, &both));
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_request_never_come_from_two_models() {
    for kept in [true, false] {
        let fake = silent(1);
        let parts = RoutingConfig {
            part_tokens: 40,
            ..with_cache()
        };
        let scene = scene(parts, &[("a", &fake)]).await;
        // The first parts are cached, or were answered before the change.
        if kept {
            scene.router.encode(many(20), &COMMON, None).await.unwrap();
            fake.set(|manner| manner.weights = 2);
        } else {
            fake.set(|manner| manner.takes_a_text = Duration::from_millis(10));
        }
        let change = async {
            sleep(Duration::from_millis(150)).await;
            fake.set(|manner| manner.weights = 2);
        };
        let (answer, ()) = tokio::join!(scene.router.encode(many(100), &COMMON, None), change);
        let rows = rows(&answer.unwrap().response);
        assert!(rows.iter().all(|row| *row == rows[0]), "kept: {kept}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_whose_vectors_shake_a_little_keeps_them() {
    let fake = silent(1);
    fake.set(|manner| manner.noise = 1e-4);
    let scene = scene(compared(), &[("a", &fake)]).await;
    let first = given(&scene, &["a", "bb"]).await.unwrap();
    sleep(Duration::from_millis(200)).await;
    replace(&scene, &fake, 1, Outage::HealthCheck).await;
    let (before, asked) = (texts(&fake), fake.asked());
    let three = given(&scene, &["a", "bb", "four"]).await.unwrap();
    assert_eq!(three[..2], first, "they are as they were");
    // Five texts for the comparison, the missing text, and one cached text.
    assert_eq!((texts(&fake), fake.asked()), (before + 7, asked + 2));
    let before = texts(&fake);
    given(&scene, &["four", "bb"]).await.unwrap();
    assert_eq!(texts(&fake), before, "they were seen to agree");
}

#[tokio::test(start_paused = true)]
async fn of_two_replicas_only_the_one_that_changed_is_refused() {
    for outage in [Outage::Unnoticed, Outage::HealthCheck] {
        let (a, b) = (silent(1), silent(1));
        let scene = scene(with_cache(), &[("a", &a), ("b", &b)]).await;
        given(&scene, &["a"]).await.unwrap();
        replace(&scene, &b, 2, outage).await;
        for number in 0..30 {
            let text = "x".repeat(number + 2);
            let both = ["a", text.as_str()];
            assert_eq!(given(&scene, &both).await.unwrap(), of(1, &both), "{outage:?}");
        }
        assert_eq!(scene.router.refusals().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn vectors_kept_from_replicas_of_which_one_changed_never_meet() {
    for round in 0..10 {
        let (a, b) = (silent(1), silent(1));
        let scene = scene(with_cache(), &[("a", &a), ("b", &b)]).await;
        given(&scene, &["warm"]).await.unwrap();
        let both = if round % 2 == 0 { [&a, &b] } else { [&b, &a] };
        // The unchanged replica answers the first text, and the changed one answers the second.
        both[1].set(|manner| manner.fails = Some(Code::ResourceExhausted));
        given(&scene, &["a"]).await.unwrap();
        both[1].set(|manner| {
            manner.fails = None;
            manner.weights = 2;
        });
        both[0].set(|manner| manner.fails = Some(Code::ResourceExhausted));
        given(&scene, &["four"]).await.unwrap();
        both[0].set(|manner| manner.fails = None);
        for texts in [&["a", "four"][..], &["a", "four", "bb"], &["four", "five5"]] {
            assert_eq!(given(&scene, texts).await.unwrap(), of(1, texts), "{round}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_that_stay_the_same_keep_their_vectors() {
    let (a, b) = (silent(1), silent(1));
    let scene = scene(with_cache(), &[("a", &a), ("b", &b)]).await;
    for number in 0..20 {
        let text = "x".repeat(number + 1);
        given(&scene, &[&text]).await.unwrap();
    }
    let all: Vec<String> = (0..20).map(|number| "x".repeat(number + 1)).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(given(&scene, &all).await.unwrap(), of(1, &all));
    let before = a.asked() + b.asked();
    for pair in all.chunks(2) {
        given(&scene, pair).await.unwrap();
    }
    assert_eq!(a.asked() + b.asked(), before, "both were seen to agree");
    // A cached text is sent along with a new text.
    given(&scene, &["x", "yy", "zzz"]).await.unwrap();
    assert_eq!(a.asked() + b.asked(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_reports_other_weights_answers_nobody() {
    let fake = Fake::new(1);
    let scene = scene(with_cache(), &[("a", &fake)]).await;
    given(&scene, &["a"]).await.unwrap();
    replace(&scene, &fake, 2, Outage::Unnoticed).await;
    for texts in [["four", "five5"], ["a", "four"]] {
        assert_refused(given(&scene, &texts).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_whose_vectors_are_never_the_same_still_answers() {
    let fake = silent(1);
    fake.set(|manner| manner.noise = 0.5);
    let scene = scene(with_cache(), &[("a", &fake)]).await;
    given(&scene, &["a"]).await.unwrap();
    for texts in [&["a", "bb"][..], &["a", "bb", "four"]] {
        assert_eq!(given(&scene, texts).await.unwrap().len(), texts.len());
    }
}

#[tokio::test(start_paused = true)]
async fn vectors_of_concurrent_requests_that_share_texts_agree() {
    let fake = silent(1);
    fake.set(|manner| manner.takes = Duration::from_millis(100));
    let scene = scene(with_cache(), &[("a", &fake)]).await;
    let all = [["a", "bb"], ["bb", "four"], ["four", "a"]];
    let answers = futures::future::join_all(all.iter().map(|texts| given(&scene, texts))).await;
    for (answer, texts) in answers.into_iter().zip(all) {
        assert_eq!(answer.unwrap(), of(1, &texts));
    }
}
