"""What tests of agents need, shipped: scripted and recorded models, the model server, the store kit, the simulator."""
