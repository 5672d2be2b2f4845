/* Faults that tests inject by the name of a hub. */
#ifndef WEFT_HUB_BROKER_FAULTS_H
#define WEFT_HUB_BROKER_FAULTS_H

#include <weft/hub_broker.h>

bool weft__fault_is_isolated(const weft_hub_broker *b, const char *hub_name);

/* Free the list of isolated names. */
void weft__faults_free(weft_hub_broker *b);

#endif
