export {
  CONFORMANCE_TESTS,
  type ConformanceReport,
  type ConformanceResult,
  type ConformanceRun,
  runConformance,
} from "./run.ts";
