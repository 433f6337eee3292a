// A page for React, which takes it from the global names. It must be imported before React.
import { Window } from "happy-dom";

globalThis.window = new Window({ url: process.env.AGENTBUS_URLS.split(",")[0] });
globalThis.document = window.document;
globalThis.navigator ??= window.navigator;
