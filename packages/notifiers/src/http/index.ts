/** What adapters of push services stand on. */
export type { VendorAnswer } from "./answer.ts";
export { createCachedCredential, type MintedCredential } from "./cached-credential.ts";
export { checkResult } from "./check.ts";
export { createDeviceAddressClient } from "./device-address-client.ts";
export { assertFits } from "./fits.ts";
export { createVendorClient } from "./vendor-client.ts";
