export { type FileLedger, type FileLedgerOptions, openFileLedger } from "./file-ledger.ts";
