#![allow(clippy::unwrap_used)]
use super::*;

fn budget(bytes: usize, percent: u8) -> Budget {
    Budget::new(&LimitsConfig {
        max_message_bytes: 4096,
        max_bytes_in_flight: bytes,
        max_caller_percent: percent,
        ..LimitsConfig::default()
    })
}

fn account(name: &str) -> Option<Reserver> {
    Some(Reserver::Account(name.into()))
}

fn limit(fault: &Fault) -> &str {
    assert_eq!(
        (fault.reason.as_str(), fault.retry_after.is_some()),
        ("OVERLOADED", true)
    );
    &fault.metadata["limit"]
}

#[test]
fn requests_share_a_budget_and_give_their_part_back() {
    let budget = budget(1 << 20, 100);
    let (one, other) = (budget.reserve(None), budget.reserve(None));
    one.grow_to(600 << 10).unwrap();
    one.grow_to(100 << 10).unwrap();
    other.grow_to(400 << 10).unwrap();
    let refusal = other.grow_to(600 << 10).unwrap_err();
    assert_eq!(limit(&refusal), "server.limits.max_bytes_in_flight");
    let clone = one.clone();
    drop(one);
    assert!(other.grow_to(600 << 10).is_err(), "a clone still holds it");
    drop(clone);
    other.grow_to(600 << 10).unwrap();
    other.clear();
    budget.reserve(None).grow_to(1 << 20).unwrap();
    assert_eq!(budget.reserved(), 0);
}

#[test]
fn one_largest_request_always_fits() {
    for percent in [1, 100] {
        budget(1, percent)
            .reserve(account("a"))
            .grow_to(4096 * PEAK_FACTOR)
            .unwrap();
    }
}

#[test]
fn one_caller_cannot_reserve_the_share_of_others() {
    let budget = budget(1 << 20, 50);
    let uploads: Vec<_> = (0..5).map(|_| budget.reserve(account("greedy"))).collect();
    let taken = uploads.iter().map(|upload| upload.grow_to(128 << 10));
    let refused: Vec<_> = taken.filter_map(Result::err).collect();
    assert_eq!(refused.len(), 1, "four eighths are its half");
    assert_eq!(limit(&refused[0]), "server.limits.max_caller_percent");
    budget.reserve(account("other")).grow_to(500 << 10).unwrap();
    drop(uploads);
    budget.reserve(account("greedy")).grow_to(500 << 10).unwrap();
    assert_eq!(budget.reserved(), 0);
    assert!(
        budget.0.reserved.lock().by_caller.is_empty(),
        "callers who hold nothing are forgotten"
    );
}

#[test]
fn an_answer_takes_the_place_of_its_request() {
    let budget = budget(1 << 20, 100);
    let one = budget.reserve(None);
    one.grow_to(100 << 10).unwrap();
    one.answer(300 << 10).unwrap();
    assert_eq!(budget.reserved(), 400 << 10);
    one.clear();
    one.answer(200 << 10).unwrap();
    assert_eq!(budget.reserved(), 200 << 10);
    assert!(budget.reserve(None).answer(900 << 10).is_err());
    let rest = budget.reserve(None);
    rest.grow_to(824 << 10).unwrap();
    budget.reserve(None).answer(SMALL).unwrap();
    drop(rest);
    drop(one);
    assert_eq!(budget.reserved(), 0);
}

#[test]
fn an_answer_larger_than_the_share_is_sent_alone() {
    let budget = budget(1 << 20, 50);
    let large = budget.reserve(account("a"));
    large.answer(10 << 20).unwrap();
    assert!(budget.reserve(account("a")).answer(2 * SMALL).is_err());
    budget.reserve(account("b")).answer(2 * SMALL).unwrap();
}

#[test]
fn an_account_takes_what_its_address_had_reserved() {
    let budget = budget(1 << 20, 50);
    let address = Reserver::at([127, 0, 0, 1].into());
    let one = budget.reserve(Some(address.clone()));
    one.grow_to(400 << 10).unwrap();
    one.of_account("a".into()).unwrap();
    assert!(budget.reserve(account("a")).grow_to(400 << 10).is_err());
    budget.reserve(Some(address)).grow_to(400 << 10).unwrap();
}

#[test]
fn a_client_has_one_share_for_all_its_addresses() {
    let at = |text: &str| Reserver::at(text.parse().unwrap());
    assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
    assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
    assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
    assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
}

#[tokio::test]
async fn a_handler_reserves_its_answer_before_it_is_made() {
    let budget = budget(1 << 20, 100);
    let one = budget.reserve(None);
    let reserved = async { reserve_answer(700 << 10).and_then(|()| reserve_answer(1)) };
    one.clone().scope(reserved).await.unwrap();
    assert_eq!(budget.reserved(), 700 << 10);
    assert!(
        budget
            .reserve(None)
            .scope(async { reserve_answer(700 << 10) })
            .await
            .is_err()
    );
    reserve_answer(usize::MAX).unwrap();
}

#[tokio::test]
async fn work_of_one_request_adds_up_and_is_given_back() {
    let budget = budget(1 << 20, 100);
    let one = budget.reserve(None);
    let works = async {
        let (mut first, mut second) = (WorkMemory::new(), WorkMemory::new());
        first.grow_to(100 << 10).unwrap();
        first.grow_to(200 << 10).unwrap();
        second.grow_to(300 << 10).unwrap();
        assert_eq!(budget.reserved(), 500 << 10);
        assert!(second.grow_to(900 << 10).is_err());
        drop(second);
        assert_eq!(budget.reserved(), 200 << 10);
    };
    one.clone().scope(works).await;
    assert_eq!(budget.reserved(), 0);
    WorkMemory::new().grow_to(usize::MAX).unwrap();
}
