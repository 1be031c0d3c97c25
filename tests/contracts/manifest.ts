/** What a published page promises, sentence by sentence, so that each promise is held by a test that names it. */

/** One promise, and where the page makes it. */
export interface PagePromise {
  /** Heading of the section. */
  readonly section: string;
  /** Place in the section: its sentences are numbered in reading order; samples, rows and list items are named. */
  readonly place: string;
  /** The promise in our words, or shortly quoted. */
  readonly says: string;
}

/** Ids are `<page>.<section>.<place>`; a letter tells the promises of one sentence apart. */
export type Manifest = Readonly<Record<string, PagePromise>>;

/** The promises of one section, by the last part of their ids; a number stands for the sentence of that number. */
export function section<const Prefix extends string, const Entries extends Record<string, string | PlacedPromise>>(
  prefix: Prefix,
  heading: string,
  entries: Entries,
): Section<Prefix, Entries> {
  const promises = Object.entries(entries).map(([key, entry]) => {
    const promise: PagePromise =
      typeof entry === "string"
        ? { section: heading, place: sentence(key), says: entry }
        : { section: heading, place: entry.place, says: entry.says };
    return [`${prefix}.${key}`, promise] as const;
  });
  return Object.fromEntries(promises) as Section<Prefix, Entries>;
}

type Section<Prefix extends string, Entries> = {
  readonly [Key in keyof Entries as Key extends string | number ? `${Prefix}.${Key}` : never]: PagePromise;
};

interface PlacedPromise {
  readonly place: string;
  readonly says: string;
}

/** A promise that does not stand in a sentence: in a sample, a table or a diagram. */
export function at(place: string, says: string): PlacedPromise {
  return { place, says };
}

function sentence(key: string): string {
  const number = /^(\d+)[a-z]?$/.exec(key)?.[1];
  if (number === undefined) throw new Error(`${key}: say where this stands, it is not the number of a sentence`);
  return `sentence ${number}`;
}
