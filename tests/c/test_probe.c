/* Tests of how it stands with a set: which nodes would vote, and what needs to be fixed. */

#include "test.h"

static quorlock_probe_t *probed(const quorlock_client_t *client) {
    quorlock_probe_t *probe = NULL;
    WORKS(quorlock_client_probe(client, &probe, &error));
    return probe;
}

static void nodes_of_the_process(void) {
    const char *const nodes[] = {"memory://c-probe-1", "memory://c-probe-2"};
    quorlock_client_options_t *options = quorlock_client_options_new();
    CHECK(quorlock_client_options_set_nodes(options, nodes, 2) == QUORLOCK_OK);
    quorlock_client_t *client = NULL;
    WORKS(quorlock_client_new(options, &client, &error));
    quorlock_client_options_free(options);
    quorlock_probe_t *probe = probed(client);
    CHECK(quorlock_probe_health(probe) == QUORLOCK_HEALTH_WORKS);
    quorlock_set_report_t set;
    WORKS(quorlock_probe_set(probe, &set, sizeof set, &error));
    CHECK(set.quorum == 2 && set.votes == 2 && set.max_ttl_ms == 60000 && same(set.set_name, "default"));
    /* Of an even number no more may fail than with one less. */
    CHECK(quorlock_probe_finding_count(probe) == 1);
    quorlock_finding_t finding;
    WORKS(quorlock_probe_finding(probe, 0, &finding, sizeof finding, &error));
    CHECK(same(finding.id, "QD15") && same(finding.severity, "note") && !finding.node && finding.node_index == -1);
    CHECK(finding.what && *finding.what && finding.remedy && *finding.remedy);
    quorlock_node_report_t node;
    CHECK(quorlock_probe_node_count(probe) == 2);
    WORKS(quorlock_probe_node(probe, 1, &node, sizeof node, &error));
    CHECK(has(node.node, "c-probe-2") && same(node.server, "memory") && same(node.record, "expected"));
    CHECK(node.answers && node.votes && !node.version && !node.role && !node.eviction && !node.release);
    CHECK(node.round_trip_least_us == -1 && node.round_trip_middle_us == -1 && node.uptime_ms == -1);
    CHECK(node.clock_us == 0 && node.clock_error_us == -1 && node.memory_used == -1 && node.memory_limit == -1);
    CHECK(node.difference_count == 0 && !quorlock_probe_difference(probe, 1, 0) && !quorlock_probe_difference(probe, 2, 0));
    /* Of a caller that knows less of it: no more is written than there is room for. */
    struct { const char *id; uint64_t behind; } small = {NULL, 77};
    WORKS(quorlock_probe_finding(probe, 0, (quorlock_finding_t *)&small, sizeof small.id, &error));
    CHECK(same(small.id, "QD15") && small.behind == 77);
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_probe_node(probe, 2, &node, sizeof node, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_probe_finding(probe, 1, &finding, sizeof finding, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_probe_set(probe, NULL, sizeof set, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_probe_node(probe, 0, NULL, sizeof node, &error));
    FAILS(QUORLOCK_INVALID_ARGUMENT, quorlock_client_probe(client, NULL, &error));
    quorlock_probe_free(probe);
    WORKS(quorlock_client_close(client, &error));
    FAILS(QUORLOCK_CLOSED, quorlock_client_probe(client, &probe, &error));
    quorlock_client_free(client);
}

static void a_set_is_probed(void) {
    quorlock_client_t *client = client_of_new_set("probe", "default", QUORLOCK_RESTART_GUARD_AUTO);
    WORKS(quorlock_client_init_set_forced(client, &error));
    quorlock_probe_t *probe = probed(client);
    quorlock_set_report_t set;
    WORKS(quorlock_probe_set(probe, &set, sizeof set, &error));
    CHECK(set.votes == 3 && set.quorum == 2 && set.guard);
    CHECK(quorlock_probe_health(probe) != QUORLOCK_HEALTH_CANNOT);
    quorlock_probe_free(probe);
    /* Whoever has another name for it is told so, node by node. */
    quorlock_client_t *other = client_of_new_set("probe", "other", QUORLOCK_RESTART_GUARD_AUTO);
    probe = probed(other);
    CHECK(quorlock_probe_health(probe) == QUORLOCK_HEALTH_CANNOT);
    WORKS(quorlock_probe_set(probe, &set, sizeof set, &error));
    CHECK(set.votes == 0 && same(set.set_name, "other"));
    CHECK(quorlock_probe_node_count(probe) == 3);
    for (size_t at = 0; at < 3; at++) {
        quorlock_node_report_t node;
        WORKS(quorlock_probe_node(probe, at, &node, sizeof node, &error));
        CHECK(node.answers && !node.votes && has(getenv("QUORLOCK_NODES"), node.node) && same(node.record, "other"));
        CHECK((same(node.server, "redis") || same(node.server, "valkey")) && node.version && same(node.role, "master"));
        CHECK(node.round_trip_least_us > 0 && node.round_trip_middle_us >= node.round_trip_least_us);
        CHECK(node.uptime_ms >= 0 && node.clock_error_us >= 0 && node.memory_used > 0 && node.memory_limit == -1);
        CHECK(node.difference_count == 1 && has(quorlock_probe_difference(probe, at, 0), "other"));
        CHECK(!quorlock_probe_difference(probe, at, 1));
        bool told = false;
        for (size_t one = 0; one < quorlock_probe_finding_count(probe); one++) {
            quorlock_finding_t finding;
            WORKS(quorlock_probe_finding(probe, one, &finding, sizeof finding, &error));
            if (finding.node_index != (int64_t)at || !same(finding.id, "QD08")) continue;
            told = same(finding.node, node.node) && same(finding.severity, "error");
        }
        CHECK(told);
    }
    quorlock_probe_free(probe);
    quorlock_client_free(other);
    quorlock_client_free(client);
}

static void names_of_health(void) {
    CHECK(same(quorlock_health_name(QUORLOCK_HEALTH_WORKS), "works"));
    CHECK(same(quorlock_health_name(QUORLOCK_HEALTH_WORKS_BUT), "works_but"));
    CHECK(same(quorlock_health_name(QUORLOCK_HEALTH_CANNOT), "cannot"));
    CHECK(!quorlock_health_name(0) && !quorlock_health_name(QUORLOCK_HEALTH_CANNOT + 1));
}

const struct test probe_tests[] = {TEST(nodes_of_the_process), TEST(a_set_is_probed), TEST(names_of_health), {NULL, NULL}};
