/* A shared library that does next to nothing. What it is linked with does: -ffast-math brings code that runs as it is loaded. */
float iq_test_halve(float x);
float iq_test_halve(float x) { return x / 2; }
