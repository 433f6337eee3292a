// A DOM for React. It must be imported before React.
import { Window } from "happy-dom";

const window = new Window({ url: "http://127.0.0.1/" });
for (const [name, value] of Object.entries({ window, document: window.document, navigator: window.navigator })) {
  Object.defineProperty(globalThis, name, { value, configurable: true }); // some versions of Node have a navigator
}
