/*
 * Helpers for the tests of traces. A Python program checks the format of the file, and prints its
 * facts, one per line. A fact names tracks as cord/fiber, and contains no times.
 */
#ifndef TESTS_CORE_TRACE_TRACE_SUPPORT_H
#define TESTS_CORE_TRACE_TRACE_SUPPORT_H

#include "support/support.h"

#include <fcntl.h>

static const char check_program[] =
    "import collections, decimal, json, re, sys\n"
    "def ns(e, key): return int(e[key] * 1000)\n"
    "def fail(*why): sys.exit('trace: ' + ' '.join(map(str, why)))\n"
    "text = open(sys.argv[1]).read()\n"
    "data = json.loads(text, parse_float=decimal.Decimal)\n"
    "events = data['traceEvents']\n"
    "names, cords = {}, {}\n"
    "for e in events:\n"
    "    if e['ph'] not in 'XisfM' or type(e['pid']) is not int or type(e['tid']) is not int:\n"
    "        fail('event', e)\n"
    "    if ns(e, 'ts') < 0 or not isinstance(e['name'], str): fail('event', e)\n"
    "    if e['name'] == 'thread_name': names[e['tid']] = e['args']['name']\n"
    "    if e['name'] == 'process_name': cords[e['pid']] = e['args']['name']\n"
    "def track(e):\n"
    "    cord = re.fullmatch(r'cord (.*) \\(thread [0-9]+\\)', cords[e['pid']])[1]\n"
    "    return cord + '/' + re.sub(' #[0-9]+$', '', names[e['tid']])\n"
    "tracks = collections.defaultdict(list)\n"
    "for e in events:\n"
    "    if e['ph'] == 'X': tracks[e['tid']].append((ns(e, 'ts'), ns(e, 'ts') + ns(e, 'dur'), e))\n"
    "for slices in tracks.values():\n"
    "    slices.sort(key=lambda s: (s[0], -s[1]))\n"
    "    ends = []\n"
    "    for begin, end, e in slices:\n"
    "        if end < begin: fail('duration', e)\n"
    "        while ends and ends[-1] <= begin: ends.pop()\n"
    "        if ends and end > ends[-1]: fail('not nested', e)\n"
    "        ends.append(end)\n"
    "flows = collections.defaultdict(dict)\n"
    "for e in events:\n"
    "    if e['ph'] in 'sf':\n"
    "        if e['ph'] in flows[e['id']]: fail('arrow twice', e)\n"
    "        flows[e['id']][e['ph']] = e\n"
    "        if not any(b <= ns(e, 'ts') <= d for b, d, _ in tracks[e['tid']]):\n"
    "            fail('arrow outside of slices', e)\n"
    "for e in flows.values():\n"
    "    if len(e) != 2 or ns(e['s'], 'ts') > ns(e['f'], 'ts'): fail('arrow', e)\n"
    "    print('arrow', track(e['s']), '->', track(e['f']), e['s']['name'], sep='|')\n"
    "for key, value in data['otherData'].items():\n"
    "    if key != 'process': print('total', key, value, sep='|')\n"
    "for e in events:\n"
    "    args = e.get('args', {})\n"
    "    if e['ph'] in 'Xi':\n"
    "        more = [k + '=' + str(v) for k, v in args.items()]\n"
    "        kind = {'X': 'slice', 'i': 'instant'}[e['ph']]\n"
    "        name = e['name'].replace('\\n', '/')\n"
    "        print(kind, track(e), e['cat'], name, *more, sep='|')\n"
    "for tid, name in names.items(): print('track', name, sep='|')\n";

static char trace_path[64];

/* Return the path of a file for the trace of this process. */
static inline const char *new_trace_path(void)
{
    snprintf(trace_path, sizeof trace_path, "/tmp/weft-trace.%d.json", (int)getpid());
    return trace_path;
}

/* Check a file. Return its facts. The memory is never freed. */
static inline const char *facts_of(const char *path)
{
    static char *all[64]; /* for LeakSanitizer */
    static size_t all_count;
    int out[2], status;
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], STDOUT_FILENO);
        execlp("python3", "python3", "-c", check_program, path, NULL);
        _exit(127);
    }
    close(out[1]);
    size_t count = 0, room = 1 << 20;
    char *text = malloc(room);
    for (ssize_t n; (n = read(out[0], text + count, room - count - 1)) > 0;)
        if ((count += (size_t)n) > room / 2)
            text = realloc(text, room *= 2);
    text[count] = '\0';
    all[all_count++ % COUNT_OF(all)] = text;
    close(out[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(status == 0, "the file %s is not valid: %d", path, status);
    return text;
}

/* Stop the trace. Return its facts. */
static inline const char *stop_trace(void)
{
    ck_assert_int_eq(weft_trace_stop(), 0);
    const char *facts = facts_of(trace_path);
    unlink(trace_path);
    return facts;
}

static inline void start_trace(void)
{
    ck_assert_uint_ne(weft_self(), 0); /* becomes a cord */
    ck_assert_int_eq(weft_trace_start(new_trace_path()), 0);
}

/* Assert that a line of the facts begins with the text. */
#define ck_assert_fact(facts, text) \
    ck_assert_msg(has_fact(facts, text), "no fact \"%s\" in:\n%s", text, facts)

static inline size_t count_facts(const char *facts, const char *text)
{
    size_t count = 0, bytes = strlen(text);
    for (const char *line = facts; line != NULL && *line != '\0';) {
        count += strncmp(line, text, bytes) == 0;
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return count;
}

static inline bool has_fact(const char *facts, const char *text)
{
    return count_facts(facts, text) > 0;
}

#endif
