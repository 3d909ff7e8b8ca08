/** The events of the tests as libtest writes them (`--format json`), a JSON object a line. */

/** Tests of a file are at nesting 0; a file that ends with an error of its own is reported as a test named by its path. */
export default async function* events(source) {
  const line = (fields) => `{ ${Object.entries(fields).map(([key, value]) => `"${key}": ${JSON.stringify(value)}`).join(', ')} }\n`;
  let passed = 0;
  let failed = 0;
  let inner = '';
  yield line({ type: 'suite', event: 'started' });
  for await (const { type, data } of source) {
    const causes = ({ error } = {}) => [error?.stack, error?.cause?.stack ?? error?.cause].filter(Boolean).join('\n');
    if (data?.nesting !== 0) {
      if (type === 'test:fail') inner += `${data.name}: ${causes(data.details)}\n`;
      continue;
    }
    if (type === 'test:dequeue') yield line({ type: 'test', event: 'started', name: data.name });
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const seconds = (data.details?.duration_ms ?? 0) / 1000;
    if (data.skip !== undefined || data.todo !== undefined) {
      yield line({ type: 'test', name: data.name, event: 'ignored', exec_time: seconds });
    } else if (type === 'test:pass') {
      passed += 1;
      yield line({ type: 'test', name: data.name, event: 'ok', exec_time: seconds });
    } else {
      failed += 1;
      yield line({ type: 'test', name: data.name, event: 'failed', exec_time: seconds, stdout: inner + causes(data.details) });
    }
    inner = '';
  }
  yield line({ type: 'suite', event: failed > 0 ? 'failed' : 'ok', passed, failed });
}
