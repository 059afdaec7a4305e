"""Corrects clients' wrong labels, as FedCorr does.

Xu, Chen, Quek, Chong, "FedCorr: Multi-Stage Federated Learning for Label Noise
Correction" (CVPR 2022). `noisy_labels` has NumPy functions, `federated` has
computations over clients. `tff_fair.experiments.training.correction` combines
them.
"""
