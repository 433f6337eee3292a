// A test runner. node:test fails a test for each rejection that is not handled, and published clients leave some behind when
// their connection is cut.
const tests = [];

// test adds a test. The tests of a file run one after the other.
export function test(name, body) {
  tests.push({ name, body });
}

process.on("unhandledRejection", () => {});

const limit = 60_000; // of a test, in milliseconds

async function runAll() {
  let failed = 0;
  for (const { name, body } of tests) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no end after ${limit} ms`)), limit);
    });
    try {
      await Promise.race([body(), late]);
      console.log(`ok    ${name}`);
    } catch (error) {
      failed++;
      console.log(`FAIL  ${name}\n${error?.stack ?? error}`);
    } finally {
      clearTimeout(timer);
    }
  }
  console.log(`${tests.length - failed} passed, ${failed} failed`);
  process.exit(failed === 0 && tests.length > 0 ? 0 : 1);
}

setImmediate(runAll); // after the file has added its tests
