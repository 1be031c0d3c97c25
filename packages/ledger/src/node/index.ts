export { type FileEntries, type FileEntriesOptions, openFileEntries } from "./file-entries.ts";
