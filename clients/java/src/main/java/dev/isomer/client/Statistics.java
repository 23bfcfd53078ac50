package dev.isomer.client;

import dev.isomer.eval.v1.AdjustPValuesRequest;
import dev.isomer.eval.v1.AdjustPValuesResponse;
import dev.isomer.eval.v1.AgreementRequest;
import dev.isomer.eval.v1.AgreementResponse;
import dev.isomer.eval.v1.BootstrapRequest;
import dev.isomer.eval.v1.BootstrapResponse;
import dev.isomer.eval.v1.ComparePairsRequest;
import dev.isomer.eval.v1.ComparePairsResponse;
import dev.isomer.eval.v1.CompareRanksRequest;
import dev.isomer.eval.v1.CompareRanksResponse;
import dev.isomer.eval.v1.CompareRequest;
import dev.isomer.eval.v1.CompareResponse;
import dev.isomer.eval.v1.CorrelateRequest;
import dev.isomer.eval.v1.CorrelateResponse;
import dev.isomer.eval.v1.PlanDesignRequest;
import dev.isomer.eval.v1.PlanDesignResponse;
import dev.isomer.eval.v1.RankStabilityRequest;
import dev.isomer.eval.v1.RankStabilityResponse;
import dev.isomer.eval.v1.ReliabilityRequest;
import dev.isomer.eval.v1.ReliabilityResponse;
import dev.isomer.eval.v1.ScoreSeries;
import dev.isomer.eval.v1.StatisticsServiceGrpc;

/** StatisticsService: equal numbers and seeds give equal answers. */
public final class Statistics {
  private final Transport transport;

  Statistics(Transport transport) {
    this.transport = transport;
  }

  /** The scores of one system. */
  public static ScoreSeries series(String name, double... values) {
    ScoreSeries.Builder made = ScoreSeries.newBuilder().setName(name);
    for (double value : values) {
      made.addValues(value);
    }
    return made.build();
  }

  /** Each treatment against the reference, paired: shift with interval, signed-rank test. */
  public CompareResponse compare(CompareRequest request) {
    return transport.call(StatisticsServiceGrpc.getCompareMethod(), request);
  }

  /** Kendall's tau-b between encoders' scores on originals and on rewrites. */
  public RankStabilityResponse rankStability(RankStabilityRequest request) {
    return transport.call(StatisticsServiceGrpc.getRankStabilityMethod(), request);
  }

  /** Agreement of raters; NaN where a rating is missing. */
  public AgreementResponse agreement(AgreementRequest request) {
    return transport.call(StatisticsServiceGrpc.getAgreementMethod(), request);
  }

  /** Split-half reliability of a profile. */
  public ReliabilityResponse reliability(ReliabilityRequest request) {
    return transport.call(StatisticsServiceGrpc.getReliabilityMethod(), request);
  }

  /** Every system against every other, with significance letters. */
  public ComparePairsResponse comparePairs(ComparePairsRequest request) {
    return transport.call(StatisticsServiceGrpc.getComparePairsMethod(), request);
  }

  /** Whether systems differ in rank: Friedman's test, Nemenyi's critical difference. */
  public CompareRanksResponse compareRanks(CompareRanksRequest request) {
    return transport.call(StatisticsServiceGrpc.getCompareRanksMethod(), request);
  }

  /** Holm's, and Benjamini and Hochberg's adjustment. */
  public AdjustPValuesResponse adjustPValues(AdjustPValuesRequest request) {
    return transport.call(StatisticsServiceGrpc.getAdjustPValuesMethod(), request);
  }

  /** The bootstrap interval of a statistic. */
  public BootstrapResponse bootstrap(BootstrapRequest request) {
    return transport.call(StatisticsServiceGrpc.getBootstrapMethod(), request);
  }

  /** Pearson's, Spearman's and Kendall's correlation, with tests and intervals. */
  public CorrelateResponse correlate(CorrelateRequest request) {
    return transport.call(StatisticsServiceGrpc.getCorrelateMethod(), request);
  }

  /** Computes the effect that a design with given numbers of data sets and seeds can detect. */
  public PlanDesignResponse planDesign(PlanDesignRequest request) {
    return transport.call(StatisticsServiceGrpc.getPlanDesignMethod(), request);
  }
}
