/** Plays the vendor that `VENDOR` names, in a process of its own. Prints what a sender needs as one line of JSON. */
import { type VendorName, vendors } from "./vendors.ts";

const { double, record, pushToken } = await vendors[process.env.VENDOR as VendorName].play();
console.log(JSON.stringify({ record, pushToken, address: double.server.address }));
