/*
 * Several hubs on a broker with random faults, on sim: cut connections, isolated hubs, a paused
 * broker. The promises of weft/hub.h hold for each seed, and the same seed gives the same run.
 */
#include "hub/hub_support.h"
#include "support/random.h"

#define HUBS 3
#define ITEMS_PER_HUB 15
#define INCREMENTS_PER_HUB 10
#define CALLS_PER_HUB 15
#define TERMS_PER_HUB 3 /* how often a hub tries to own the name */
#define FAULTS 12
#define FAULT_MAX_S 13.0
#define HEALED_S 600.0 /* far longer than a run needs after the last fault */
#define SEEDS 12

typedef struct storm_hub {
    weft_hub *hub;
    char name[8];
    int index;
} storm_hub;

static struct {
    storm_hub hubs[HUBS];
    bool is_put[HUBS][ITEMS_PER_HUB];
    int handled[HUBS][ITEMS_PER_HUB];
    unsigned increments, stale; /* of the counter */
    unsigned replies, failed_calls;
    unsigned owners, terms, lost_terms;
    uint64_t last_token;
    uint64_t trace; /* a hash of all events, with their times */
} storm;

/* Add an event to the trace. */
static void note(const char *what, uint64_t detail)
{
    char text[96];
    snprintf(text, sizeof text, "%.9f %s %llu", weft_now(), what, (unsigned long long)detail);
    for (const char *c = text; *c != '\0'; c++)
        storm.trace = (storm.trace ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    if (getenv("WEFT_TEST_FIGURES") != NULL)
        fprintf(stderr, "%s\n", text);
}

static void sleep_randomly(double longest_s)
{
    MUST_EQ(weft_sleep(longest_s * random_below(1000) / 1000), 0);
}

static weft_value put_all(void *arg)
{
    storm_hub *h = arg;
    for (int i = 0; i < ITEMS_PER_HUB; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d-%d", h->index, i);
        sleep_randomly(4);
        int rc = weft_hub_put(h->hub, "work", id, id, strlen(id));
        MUST(rc == 0 || rc == 1);
        storm.is_put[h->index][i] = true;
        note("put", (uint64_t)i);
    }
    return 0;
}

static weft_value handle_or_fail(weft_hub_msg *item, void *arg)
{
    int hub = -1, i = -1;
    MUST_EQ(sscanf(item->data, "%d-%d", &hub, &i), 2);
    MUST(strcmp(item->id, item->data) == 0);
    int rc = weft_sleep(0.5 * random_below(10));
    if (rc < 0 || random_below(5) == 0)
        return -EIO;
    storm.handled[hub][i]++;
    note("handled", (uint64_t)(hub * ITEMS_PER_HUB + i));
    return 0;
}

static weft_value work_until_cancelled(void *arg)
{
    storm_hub *h = arg;
    int rc = weft_hub_work(h->hub, "work", handle_or_fail, NULL, 4);
    MUST_EQ(rc, -ECANCELED);
    return 0;
}

/* Add 1 to the counter. Returns 0 or -ESTALE. */
static int increment(weft_hub *hub)
{
    weft_hub_msg *msg = NULL;
    uint64_t revision = 0;
    char text[16] = "0";
    int rc = weft_hub_get(hub, "counter", &msg, &revision);
    MUST(rc == 0 || rc == -ENOENT);
    if (rc == 0)
        snprintf(text, sizeof text, "%s", (const char *)msg->data);
    weft_hub_free(msg);
    if (rc < 0)
        revision = 0;
    snprintf(text, sizeof text, "%d", atoi(text) + 1);
    rc = weft_hub_set(hub, "counter", text, strlen(text), &revision);
    MUST(rc == 0 || rc == -ESTALE);
    return rc;
}

static weft_value increment_all(void *arg)
{
    storm_hub *h = arg;
    for (int done = 0; done < INCREMENTS_PER_HUB;) {
        sleep_randomly(2);
        int rc = increment(h->hub);
        done += rc == 0;
        storm.increments += rc == 0;
        storm.stale += rc < 0;
        note("increment", (uint64_t)-rc);
    }
    weft_error_clear();
    return 0;
}

static weft_value echo_late(void *arg)
{
    weft_value message;
    while (!weft_is_error(message = weft_receive())) {
        weft_hub_msg *msg = (weft_hub_msg *)message;
        if (weft_sleep(0.1 * random_below(20)) < 0)
            break;
        weft_hub_reply(msg, msg->data, msg->bytes);
        weft_hub_free(msg);
    }
    weft_error_clear();
    return 0;
}

static int call_once(storm_hub *h, const char *text)
{
    weft_hub_msg *reply = NULL;
    int rc = 0, timeout = 0;
    WEFT_CANCEL_AFTER(0.2 * random_below(20), timeout) {
        rc = weft_hub_call(h->hub, "echo", text, strlen(text), &reply);
    }
    if (rc == 0)
        MUST(strcmp(reply->data, text) == 0);
    weft_hub_free(reply);
    return rc;
}

static weft_value call_all(void *arg)
{
    storm_hub *h = arg;
    for (int i = 0; i < CALLS_PER_HUB; i++) {
        char text[32];
        snprintf(text, sizeof text, "call %d of %d", i, h->index);
        sleep_randomly(3);
        int rc = call_once(h, text);
        storm.replies += rc == 0;
        storm.failed_calls += rc < 0;
        note("call", (uint64_t)-rc);
    }
    weft_error_clear();
    return 0;
}

/* Hold the name for a while. All hubs have the same clock, so that there is one owner at a time. */
static void own_for_a_term(storm_hub *h, uint64_t token)
{
    MUST(token > storm.last_token);
    MUST_EQ(++storm.owners, 1);
    storm.last_token = token;
    note("owner", token);
    int rc = weft_sleep(0.05 * random_below(1000));
    storm.owners--;
    MUST(rc == 0 || rc == -ESTALE);
    note("no owner", token);
    storm.terms++;
    storm.lost_terms += rc < 0;
    if (rc == 0) {
        rc = weft_hub_withdraw(h->hub, "owned");
        MUST(rc == 0 || rc == -ENOENT || rc == -ESTALE);
    }
    weft_error_clear();
}

static weft_value own_repeatedly(void *arg)
{
    storm_hub *h = arg;
    for (int terms = 0; terms < TERMS_PER_HUB;) {
        uint64_t token = 0;
        int rc = weft_hub_expose(h->hub, "owned", weft_self(), &token);
        MUST(rc == 0 || rc == -EEXIST || rc == -ESTALE);
        weft_error_clear();
        if (rc == 0)
            own_for_a_term(h, token);
        terms += rc == 0;
        weft_sleep(0.01 * random_below(300)); /* may be told that the last term has ended */
    }
    return 0;
}

/* Cause a fault for a random time. */
static void cause_fault(weft_hub_broker *broker)
{
    const char *name = storm.hubs[random_below(HUBS)].name;
    unsigned kind = random_below(4);
    note("fault", kind);
    if (kind == 0) {
        MUST(weft_hub_broker_cut(broker, random_below(3) == 0 ? NULL : name) >= 0);
    } else if (kind == 1) {
        MUST_EQ(weft_hub_broker_pause(broker, true), 0);
        sleep_randomly(FAULT_MAX_S);
        MUST_EQ(weft_hub_broker_pause(broker, false), 0);
    } else {
        MUST_EQ(weft_hub_broker_isolate(broker, name, true), 0);
        sleep_randomly(FAULT_MAX_S);
        if (kind == 3)
            weft_hub_broker_cut(broker, name);
        MUST_EQ(weft_hub_broker_isolate(broker, name, false), 0);
    }
    sleep_randomly(6);
}

static void open_storm_hubs(void)
{
    for (int i = 0; i < HUBS; i++) {
        storm_hub *h = &storm.hubs[i];
        h->index = i;
        snprintf(h->name, sizeof h->name, "hub%d", i);
        h->hub = weft_hub_open("mem:", &(weft_hub_options){.name = h->name, .lease_s = 10});
        MUST(h->hub != NULL);
    }
}

static weft_fn *const activities[] = {put_all, increment_all, call_all, own_repeatedly};

/* Spin the fibers of a hub that end by themselves. */
static void spin_activities(weft_group *group, storm_hub *h)
{
    for (size_t i = 0; i < COUNT_OF(activities); i++)
        MUST(weft_group_spin(group, activities[i], h) != 0);
}

static bool is_all_handled(void)
{
    for (int h = 0; h < HUBS; h++) {
        for (int i = 0; i < ITEMS_PER_HUB; i++) {
            if (storm.is_put[h][i] && storm.handled[h][i] == 0)
                return false;
        }
    }
    return true;
}

/* A set that returns -ESTALE may have been stored, if another writer has replaced its value. */
static void check_counter(weft_hub *hub)
{
    weft_hub_msg *msg;
    MUST_EQ(weft_hub_get(hub, "counter", &msg, NULL), 0);
    unsigned value = (unsigned)atoi(msg->data);
    weft_hub_free(msg);
    MUST(value >= storm.increments && value <= storm.increments + storm.stale);
    note("counter", value);
}

static void log_nothing(int level, const char *text, void *arg)
{
}

static int print_storm(void)
{
    weft_set_log(log_nothing, NULL);
    weft_hub_broker *broker = weft_hub_broker_get("");
    weft_group group;
    weft_fiber workers[HUBS], echoes[HUBS];
    random_state = strtoull(getenv("WEFT_SEED"), NULL, 10);
    open_storm_hubs();
    MUST_EQ(weft_hub_queue(storm.hubs[0].hub, "work", &(weft_hub_queue_options){.ack_s = 5}), 0);
    MUST_EQ(weft_group_open(&group), 0);
    for (int i = 0; i < HUBS; i++) {
        workers[i] = weft_spin(work_until_cancelled, &storm.hubs[i]);
        echoes[i] = weft_spin(echo_late, NULL);
        MUST_EQ(weft_hub_expose(storm.hubs[i].hub, "echo", echoes[i], NULL), 0);
        spin_activities(&group, &storm.hubs[i]);
    }
    for (int i = 0; i < FAULTS; i++)
        cause_fault(broker);
    double end_s = weft_now() + HEALED_S;
    MUST_EQ(weft_group_close(&group), 0);
    while (!is_all_handled() && weft_now() < end_s)
        MUST_EQ(weft_sleep(0.1), 0);
    MUST(weft_now() < end_s);
    check_counter(storm.hubs[0].hub);
    for (int i = 0; i < HUBS; i++) {
        weft_terminate(workers[i], 10);
        weft_terminate(echoes[i], 10);
        MUST_EQ(weft_hub_close(storm.hubs[i].hub), 0);
    }
    weft_hub_broker_release(broker);
    fprintf(stderr, "%.6f s, %u increments, %u stale, %u replies, %u terms, %u lost, trace %llx\n",
            weft_now(), storm.increments, storm.stale, storm.replies, storm.terms, storm.lost_terms,
            (unsigned long long)storm.trace);
    return 0;
}

/* Return the end of the last line of a run. */
static const char *last_line(const char *text)
{
    const char *line = strstr(text, " increments, ");
    ck_assert_msg(line != NULL, "%s", text);
    return line;
}

TEST_LOOP(the_promises_of_hubs_hold_with_random_faults_and_runs_repeat, SEEDS)
{
    static char first[sizeof((outcome *)0)->text];
    if (!runs_on("sim"))
        return;
    setenv("WEFT_SEED", format("%d", _i + 1), 1);
    strcpy(first, run_apart(print_storm)->text);
    last_line(first);
    ck_assert_str_eq(last_line(run_apart(print_storm)->text), last_line(first));
}
