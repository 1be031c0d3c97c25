/** What adapters of push services stand on. */
export { createCachedCredential, type MintedCredential } from "./cached-credential.ts";
export { checkResult } from "./check.ts";
export { assertFits } from "./fits.ts";
export { createVendorClient, type VendorAnswer } from "./vendor-client.ts";
