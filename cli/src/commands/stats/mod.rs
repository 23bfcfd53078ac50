//! `isomer stats …`: the tests of the statistics service on a table of the user's own.

mod show;
mod table;

use std::{io::Write, process::ExitCode};

use isomer_client::Channel;
use isomer_proto::eval::v1::{
    self as proto, AdjustPValuesRequest, AgreementRequest, BootstrapRequest, ComparePairsRequest, CompareRanksRequest,
    CompareRequest, CorrelateRequest, PlanDesignRequest, RankStabilityRequest, ReliabilityRequest, ScoreSeries,
    agreement_request::Rater, statistics_service_client::StatisticsServiceClient,
};
use serde_json::Value;

use super::stdout_failure;
use crate::{
    args::{
        Format,
        stats::{
            AgreementArgs, BootstrapArgs, CompareArgs, CorrelationArgs, DesignArgs, HolmArgs, MethodArg, PairsArgs,
            RanksArgs, ReliabilityArgs, StabilityArgs, StatsCommand, WeightsArg,
        },
    },
    connect::{self, Session},
    exit::Failure,
};
use table::Table;

type Client = StatisticsServiceClient<Channel>;
/// The result of a test, as text and as a document.
type TestOutput = (String, Value);

pub(super) async fn run(session: &Session, command: StatsCommand) -> Result<ExitCode, Failure> {
    let connection = session.connect().await?;
    let mut client = Client::new(connection.channel.clone())
        .max_decoding_message_size(connect::MAX_MESSAGE_BYTES)
        .max_encoding_message_size(connect::MAX_MESSAGE_BYTES);
    let client = &mut client;
    let (text, document) = match command {
        StatsCommand::Compare(args) => compare(client, args).await,
        StatsCommand::Pairs(args) => pairs(client, args).await,
        StatsCommand::Ranks(args) => ranks(client, args).await,
        StatsCommand::Stability(args) => stability(client, args).await,
        StatsCommand::Reliability(args) => reliability(client, args).await,
        StatsCommand::Holm(args) => holm(client, args).await,
        StatsCommand::Bootstrap(args) => bootstrap(client, args).await,
        StatsCommand::Correlation(args) => correlation(client, args).await,
        StatsCommand::Agreement(args) => agreement(client, args).await,
        StatsCommand::Design(args) => design(client, args).await,
    }?;
    let mut out = std::io::stdout().lock();
    match session.global.format {
        Format::Text => writeln!(out, "{}", text.trim_end()),
        Format::Json => writeln!(out, "{document:#}"),
    }
    .map_err(|error| stdout_failure(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn series((name, values): (String, Vec<f64>)) -> ScoreSeries {
    ScoreSeries { name, values }
}

fn systems(table: &Table) -> Result<Vec<ScoreSeries>, Failure> {
    Ok(table.numbers()?.into_iter().map(series).collect())
}

/// Exactly two columns.
fn two(table: &Table) -> Result<[(String, Vec<f64>); 2], Failure> {
    table.numbers()?.try_into().map_err(|columns: Vec<_>| {
        Failure::usage(format!(
            "--column: a correlation takes two columns, {} are given",
            columns.len()
        ))
    })
}

async fn compare(client: &mut Client, args: CompareArgs) -> Result<TestOutput, Failure> {
    let table = Table::read(&args.table)?;
    let mut treatments = systems(&table)?;
    let at = match &args.reference {
        None => 0,
        Some(name) => treatments
            .iter()
            .position(|series| series.name == *name)
            .ok_or_else(|| {
                let names: Vec<&str> = treatments.iter().map(|series| series.name.as_str()).collect();
                Failure::usage(format!(
                    "--reference: {name:?} is none of the columns {}",
                    names.join(", ")
                ))
            })?,
    };
    let reference = treatments.remove(at);
    let name = reference.name.clone();
    let request = CompareRequest {
        reference: Some(reference),
        treatments,
        alternative: args.alternative.into(),
        resamples: args.draws.resamples,
        confidence: args.draws.confidence,
        seed: Some(args.draws.seed),
        method: match args.method {
            MethodArg::Auto => proto::WilcoxonMethod::Unspecified,
            MethodArg::Exact => proto::WilcoxonMethod::Exact,
            MethodArg::Conditional => proto::WilcoxonMethod::Conditional,
            MethodArg::Normal => proto::WilcoxonMethod::Normal,
        }
        .into(),
        zero_method: args.zeros.into(),
        continuity_correction: args.continuity_correction,
    };
    let answer = client.compare(request).await?.into_inner();
    Ok(show::compare(&name, &answer.comparisons))
}

async fn pairs(client: &mut Client, args: PairsArgs) -> Result<TestOutput, Failure> {
    let request = ComparePairsRequest {
        systems: systems(&Table::read(&args.table)?)?,
        test: args.test.into(),
        alpha: args.alpha,
        resamples: args.draws.resamples,
        confidence: args.draws.confidence,
        seed: Some(args.draws.seed),
    };
    Ok(show::pairs(&client.compare_pairs(request).await?.into_inner()))
}

async fn ranks(client: &mut Client, args: RanksArgs) -> Result<TestOutput, Failure> {
    let request = CompareRanksRequest {
        systems: systems(&Table::read(&args.table)?)?,
        alpha: args.alpha,
    };
    Ok(show::ranks(&client.compare_ranks(request).await?.into_inner()))
}

async fn stability(client: &mut Client, args: StabilityArgs) -> Result<TestOutput, Failure> {
    let table = Table::read(&args.table)?;
    let names: Vec<String> = table.numbers()?.into_iter().map(|(name, _)| name).collect();
    let transformed = Table::read(&crate::args::stats::TableArgs {
        input: Some(args.transformed),
        columns: names,
    })?;
    let request = RankStabilityRequest {
        original: systems(&table)?,
        transformed: systems(&transformed)?,
    };
    let answer = client.rank_stability(request).await?.into_inner();
    Ok(show::stability(&table.row_names(), &answer))
}

async fn reliability(client: &mut Client, args: ReliabilityArgs) -> Result<TestOutput, Failure> {
    let mut table = Table::read(&args.table)?;
    let strata = match &args.strata {
        Some(name) => table.take_labels("--strata", name)?,
        None => Vec::new(),
    };
    let request = ReliabilityRequest {
        encoders: systems(&table)?,
        strata,
        splits: args.splits,
        seed: Some(args.seed),
    };
    Ok(show::reliability(&client.reliability(request).await?.into_inner()))
}

async fn holm(client: &mut Client, args: HolmArgs) -> Result<TestOutput, Failure> {
    let (names, p_values) = if args.p_values.is_empty() {
        let table = Table::read(&args.table)?;
        let [(_, p_values)]: [_; 1] = table.numbers()?.try_into().map_err(|columns: Vec<(String, _)>| {
            let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            Failure::usage(format!(
                "--column: name the column with the p-values, one of {}",
                names.join(", ")
            ))
        })?;
        (table.row_names(), p_values)
    } else {
        (
            (1..=args.p_values.len()).map(|i| i.to_string()).collect(),
            args.p_values,
        )
    };
    let request = AdjustPValuesRequest {
        p_values: p_values.clone(),
    };
    let answer = client.adjust_p_values(request).await?.into_inner();
    Ok(show::adjusted(&names, &p_values, &answer))
}

async fn bootstrap(client: &mut Client, args: BootstrapArgs) -> Result<TestOutput, Failure> {
    let table = Table::read(&args.table)?;
    let of_pairs = matches!(
        args.statistic,
        proto::BootstrapStatistic::Pearson | proto::BootstrapStatistic::Spearman | proto::BootstrapStatistic::Kendall
    );
    let samples: Vec<(String, Vec<f64>, Vec<f64>)> = if of_pairs {
        let [(first, x), (second, y)] = two(&table)?;
        vec![(format!("{first}, {second}"), x, y)]
    } else {
        table
            .numbers()?
            .into_iter()
            .map(|(name, values)| (name, values, Vec::new()))
            .collect()
    };
    let mut answers = Vec::new();
    for (name, values, second) in samples {
        let request = BootstrapRequest {
            values,
            second,
            statistic: args.statistic.into(),
            method: args.interval.into(),
            resamples: args.draws.resamples,
            confidence: args.draws.confidence,
            seed: Some(args.draws.seed),
        };
        answers.push((name, client.bootstrap(request).await?.into_inner()));
    }
    Ok(show::bootstrap(&answers))
}

async fn correlation(client: &mut Client, args: CorrelationArgs) -> Result<TestOutput, Failure> {
    let [x, y] = two(&Table::read(&args.table)?)?;
    let request = CorrelateRequest {
        x: Some(series(x)),
        y: Some(series(y)),
        alternative: args.alternative.into(),
        confidence: args.draws.confidence,
        resamples: args.draws.resamples,
        seed: Some(args.draws.seed),
    };
    Ok(show::correlation(&client.correlate(request).await?.into_inner()))
}

async fn agreement(client: &mut Client, args: AgreementArgs) -> Result<TestOutput, Failure> {
    let raters = Table::read(&args.table)?.ratings()?;
    let request = AgreementRequest {
        raters: raters
            .into_iter()
            .map(|(name, ratings)| Rater { name, ratings })
            .collect(),
        weights: match args.weights {
            WeightsArg::Identity => "identity",
            WeightsArg::Ordinal => "ordinal",
            WeightsArg::Linear => "linear",
            WeightsArg::Quadratic => "quadratic",
        }
        .to_owned(),
        scale: args.scale,
        confidence: args.confidence,
    };
    let weights = request.weights.clone();
    Ok(show::agreement(
        &weights,
        &client.agreement(request).await?.into_inner(),
    ))
}

async fn design(client: &mut Client, args: DesignArgs) -> Result<TestOutput, Failure> {
    let piloted = args.table.input.is_some() || args.sd_between.is_none() || args.sd_seeds.is_none();
    let differences = if piloted {
        let table = Table::read(&args.table)?;
        let (seeds, names) = (table.numbers()?, table.row_names());
        names
            .into_iter()
            .enumerate()
            .map(|(row, name)| ScoreSeries {
                name,
                values: seeds.iter().map(|(_, values)| values[row]).collect(),
            })
            .collect()
    } else {
        Vec::new()
    };
    let request = PlanDesignRequest {
        differences,
        sd_between: args.sd_between,
        sd_seeds: args.sd_seeds,
        datasets: args.datasets.unwrap_or_default(),
        seeds: args.seeds.unwrap_or_default(),
        effect: args.effect,
        alpha: args.alpha,
        power: args.power,
        alternative: args.alternative.into(),
        student: args.student,
    };
    let answer = client.plan_design(request).await?.into_inner();
    Ok(show::design(args.effect, args.power, &answer))
}
