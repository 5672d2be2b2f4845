/* Properties as tests of a suite, next to tests of single behaviours. */
#ifndef TESTS_SUPPORT_PROPERTY_SUITE_H
#define TESTS_SUPPORT_PROPERTY_SUITE_H

#include "support/property.h"
#include "support/suite.h"

/* Each property is a case with its name. A round of the case runs one seed. */
static inline void suite_add_properties(const property *table, size_t n, TTest *tests,
                                        suite_entry *entries)
{
    properties_run = table;
    for (size_t i = 0; i < n; i++) {
        tests[i] = *property_holds;
        tests[i].name = table[i].name;
        entries[i] = (suite_entry){&tests[i], (int)seeds_of(&table[i]), NULL,
                                   .first = (int)i * SEEDS_MAX, .timeout_s = 2 * PROGRAM_TIMEOUT_S};
        suite_add(&entries[i]);
    }
}

/* Add the properties of a table to the suite of the program. */
#define PROPERTIES(table)                                                \
    __attribute__((constructor)) static void suite_bind_properties(void) \
    {                                                                    \
        static TTest tests[COUNT_OF(table)];                             \
        static suite_entry entries[COUNT_OF(table)];                     \
        suite_add_properties(table, COUNT_OF(table), tests, entries);    \
    }

#endif
