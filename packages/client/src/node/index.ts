export { type FileCallLedger, type FileCallLedgerOptions, openFileCallLedger } from "./file-call-ledger.ts";
