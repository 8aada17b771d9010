/* A library that loads but is no PJRT plugin. */
int ls_test_no_plugin(void);
int ls_test_no_plugin(void) { return 0; }
